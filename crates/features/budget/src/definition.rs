//! Where the configuration defines a test: annotations that belong to no line of code
//! point there.

use std::path::Path;

use toml::de::DeTable;

use crate::configuration::Configuration;
use crate::paths::Project;

/// The configuration, relative to the repository, and the line of `[tests.NAME]` in it,
/// from 1. `None` if the file is outside the repository or cannot be read any more.
pub fn definition(
    configuration: &Configuration,
    project: &Project,
    test: &str,
) -> Option<(String, u32)> {
    let file = configuration.file.canonicalize().ok()?;
    let inside = file.strip_prefix(project.root()).ok()?.to_str()?;
    let line = line_of(&Configuration::text_of(&file).ok()?, test)?;
    Some((inside.to_owned(), line))
}

fn line_of(text: &str, test: &str) -> Option<u32> {
    let table = DeTable::parse(text).ok()?;
    let tests = table.get_ref().get("tests")?.get_ref().as_table()?;
    let (key, _) = tests.get_key_value(test)?;
    let before = text.get(..key.span().start)?;
    u32::try_from(1 + before.matches('\n').count()).ok()
}

/// Whether an annotation can point to a file: it exists below the root.
pub fn exists(root: &Path, file: &str) -> bool {
    !file.is_empty() && !file.starts_with('/') && root.join(file).is_file()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_of_a_test_is_found_in_every_notation() {
        let text = "[defaults]\nruns = 2\n\n# first\n[tests.a]\ncommand = [\"x\"]\n\
                    [tests.\"b c\".platforms.x]\nruns = 3\n[tests.\"b c\"]\ncommand = []\n";
        assert_eq!(line_of(text, "a"), Some(5));
        assert_eq!(line_of(text, "b c"), Some(9));
        assert_eq!(line_of(text, "c"), None);
        let inline = "tests = {\n  a = { command = [] } }\n";
        assert_eq!(line_of(inline, "a"), Some(2));
    }
}
