//! Paths and build ids of the modules of a stack set, whose frames have only file names.

use allotrope_profile::StackSet;
use allotrope_text::text_of_path;

use crate::function_names::file_name;

/// The modules of a set.
pub(crate) struct ModuleNames<'a> {
    set: &'a StackSet,
    main: &'a str,
}

impl<'a> ModuleNames<'a> {
    pub fn of(set: &'a StackSet) -> Self {
        Self {
            set,
            main: main_module(set),
        }
    }

    /// The file name of the executable; empty if unknown.
    pub fn main(&self) -> &'a str {
        self.main
    }

    /// The path and the build id of a module; its name and an empty text if they are
    /// unknown, or if several modules have this name.
    pub fn identity(&self, name: &str) -> (String, String) {
        let run = &self.set.run;
        let mut modules = run.modules.iter().filter(|module| module.name() == name);
        match (modules.next(), modules.next()) {
            (Some(module), None) => {
                let digits = module.build_id.iter().map(|byte| format!("{byte:02x}"));
                (text_of_path(&module.path).into_owned(), digits.collect())
            }
            (None, _) if name == self.main && !run.executable.is_empty() => {
                (run.executable.clone(), String::new())
            }
            _ => (name.to_owned(), String::new()),
        }
    }
}

/// The file name of the executable; if it is unknown, that of the command's first word if
/// a module has this name; else empty.
fn main_module(set: &StackSet) -> &str {
    if !set.run.executable.is_empty() {
        return file_name(&set.run.executable);
    }
    let word = file_name(set.title.split(' ').next().unwrap_or_default());
    let is_module = set.frames.iter().any(|frame| &*frame.module == word);
    if is_module { word } else { "" }
}
