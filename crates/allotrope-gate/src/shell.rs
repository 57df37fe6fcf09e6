//! Words as a line for a POSIX shell, for a person to copy.

/// The words as one line, quoted where a shell would take them for more.
pub fn command_line<S: AsRef<str>>(words: &[S]) -> String {
    let words: Vec<String> = words.iter().map(|word| quoted(word.as_ref())).collect();
    words.join(" ")
}

/// `NAME=value` as a shell takes it.
pub fn assignment(name: &str, value: &str) -> String {
    format!("{name}={}", quoted(value))
}

fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,+@%^".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
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
        assert_eq!(assignment("A", "b c"), "A='b c'");
    }
}
