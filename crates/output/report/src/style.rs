//! Width and colours of text. The caller queries the terminal, not this file.

/// Width and colours of text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Style {
    /// Whether ANSI colours may be used.
    pub color: bool,
    /// Columns; lines are never longer. Values below 40 count as 40.
    pub width: usize,
}

impl Default for Style {
    fn default() -> Self {
        Self {
            color: false,
            width: 80,
        }
    }
}

/// The role of a piece of text, which has a colour.
#[derive(Clone, Copy)]
pub(crate) enum Role {
    Title,
    Function,
    Location,
    Warning,
}

impl Style {
    pub(crate) fn columns(&self) -> usize {
        self.width.max(40)
    }

    /// The text in the colour of its role (ECMA-48 SGR), if colours may be used.
    pub(crate) fn paint(&self, role: Role, text: &str) -> String {
        if !self.color || text.is_empty() {
            return text.to_owned();
        }
        let code = match role {
            Role::Title => "1",
            Role::Function => "36",
            Role::Location => "2",
            Role::Warning => "33",
        };
        format!("\x1b[{code}m{text}\x1b[0m")
    }
}
