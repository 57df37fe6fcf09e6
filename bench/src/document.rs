//! The generated parts of `docs/benchmarks.md`, each between two HTML comments. Only
//! these parts are replaced; the rest of the file is written by hand.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::workshop::repository;

/// A Markdown file with generated parts.
pub struct Document {
    path: PathBuf,
    text: String,
}

impl Document {
    /// The one in the repository.
    pub fn open() -> Result<Self> {
        let path = repository().join("docs/benchmarks.md");
        let text = std::fs::read_to_string(&path);
        let text = text.with_context(|| format!("cannot read {}", path.display()))?;
        Ok(Self { path, text })
    }

    /// The folder of its plots.
    pub fn plots(&self) -> PathBuf {
        self.path.with_extension("")
    }

    /// Replaces the part with this name.
    pub fn set(&mut self, name: &str, content: &str) -> Result<()> {
        self.text = replaced(&self.text, name, content, &self.path)?;
        Ok(())
    }

    /// Writes it.
    pub fn save(&self) -> Result<()> {
        std::fs::write(&self.path, &self.text)
            .with_context(|| format!("cannot write {}", self.path.display()))
    }
}

fn replaced(text: &str, name: &str, content: &str, path: &Path) -> Result<String> {
    let (begin, end) = (
        format!("<!-- generated: {name} -->\n"),
        format!("<!-- end of {name} -->"),
    );
    let parts = text.split_once(&begin).and_then(|(before, rest)| {
        let (_, after) = rest.split_once(&end)?;
        Some((before, after))
    });
    let (before, after) =
        parts.with_context(|| format!("{} has no part {name:?}", path.display()))?;
    Ok(format!(
        "{before}{begin}\n{}\n\n{end}{after}",
        content.trim()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_named_part_is_replaced() {
        let text = "a\n<!-- generated: x -->\nold\n<!-- end of x -->\nb\n";
        let path = Path::new("file");
        let new = replaced(text, "x", "new\n", path).unwrap();
        assert_eq!(
            new,
            "a\n<!-- generated: x -->\n\nnew\n\n<!-- end of x -->\nb\n"
        );
        assert_eq!(replaced(&new, "x", "new", path).unwrap(), new);
        assert!(replaced(text, "y", "", path).is_err());
    }
}
