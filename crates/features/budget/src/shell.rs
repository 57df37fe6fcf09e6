//! Quotes words for a POSIX shell, so that a user can copy the command line.

use std::ffi::OsStr;

use allotrope_text::{Shown, word};

/// The words as one line, quoted where necessary.
pub fn command_line<S: AsRef<OsStr>>(words: &[S]) -> String {
    let words: Vec<String> = words.iter().map(|it| word(it.as_ref())).collect();
    words.join(" ")
}

/// `NAME=value`, quoted where necessary.
pub fn assignment(name: &OsStr, value: &OsStr) -> String {
    format!("{}={}", name.shown(), word(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shell_reads_the_same_words() {
        let words = ["echo", "a b", "it's", "", "$HOME", "*", "plain-1.2/x"];
        let line = command_line(&words);
        let script = format!("set -- {line}; printf '%s\\n' \"$@\"");
        let output = std::process::Command::new("sh")
            .args(["-c", &script])
            .output();
        let output = output.expect("there is a shell").stdout;
        assert_eq!(String::from_utf8_lossy(&output), words.join("\n") + "\n");
        assert_eq!(assignment(OsStr::new("A"), OsStr::new("b c")), "A='b c'");
    }
}
