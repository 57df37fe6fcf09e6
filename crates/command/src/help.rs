//! What newcomers see: three examples, the commands in groups, and a sentence for options before
//! a command.

use std::ffi::OsString;
use std::fmt::Write as _;

use allotrope_text::{Shown, word};
use clap::CommandFactory;

use crate::command_line::CommandLine;

/// What `allotrope` alone prints.
pub const EXAMPLES: &str = "\
Allotrope shows where a program's heap memory comes from. Three examples:

  allotrope ./prog               record a program, then show what stands out
  allotrope report               show the newest recording of this folder
  allotrope diff OLD NEW         show what changed from one recording to another

allotrope --help lists the commands, allotrope help COMMAND says what one of them does.
";

/// A group of commands: its title, those that the help lists, and its others.
struct Group {
    title: &'static str,
    listed: &'static [&'static str],
    others: &'static [&'static str],
}

const GROUPS: [Group; 4] = [
    Group {
        title: "Record a program and look at it",
        listed: &["record", "report", "show", "view", "diff"],
        others: &[],
    },
    Group {
        title: "While a program runs",
        listed: &["stat", "watch"],
        others: &["standby", "recorder", "postmortem", "mark"],
    },
    Group {
        title: "In CI",
        listed: &["test", "compare"],
        others: &[],
    },
    Group {
        title: "Further",
        listed: &["export", "allocators", "doctor"],
        others: &[
            "symbolize",
            "replay",
            "bench",
            "cpu",
            "paths",
            "client-header",
            "completions",
            "man",
        ],
    },
];

/// Prints the help of this command if `words`, those behind its name, ask for it and not for that of
/// one of its commands. Returns whether they do.
pub fn print(words: &[OsString]) -> bool {
    let is_of_all = |word: &OsString| word == "help" || word.as_encoded_bytes().starts_with(b"-");
    if !words.iter().all(is_of_all) {
        return false;
    }
    let mut command = with_groups(words.iter().any(|it| it == "--all"));
    // A terminal that has gone is no reason to panic.
    let _ = match words.iter().any(|it| it == "-h") {
        true => command.print_help(),
        false => command.print_long_help(),
    };
    true
}

/// The command with its commands in groups; `all`: with those that the help does not list otherwise,
/// too.
fn with_groups(all: bool) -> clap::Command {
    let mut command = CommandLine::command();
    command.build();
    const TITLE: &str = "\x1b[1m\x1b[4m";
    const NAME: &str = "\x1b[1m";
    const PLAIN: &str = "\x1b[0m";
    let mut text = String::from("{about-with-newline}\n{usage-heading} {usage}\n");
    for group in &GROUPS {
        // A string takes everything.
        let _ = write!(text, "\n{TITLE}{}:{PLAIN}\n", group.title);
        let others = group.others.iter().filter(|_| all);
        for name in group.listed.iter().chain(others) {
            let about = command
                .find_subcommand(name)
                .and_then(clap::Command::get_about);
            let about = about.map(ToString::to_string).unwrap_or_default();
            let _ = writeln!(text, "  {NAME}{name:<14}{PLAIN} {about}");
        }
    }
    if !all {
        let listed: usize = GROUPS.iter().map(|it| it.others.len()).sum();
        let _ = write!(
            text,
            "\nallotrope help --all lists {listed} more commands, allotrope help COMMAND explains one.\n"
        );
    }
    text.push_str("\nOptions:\n{options}{after-help}");
    command.help_template(text)
}

/// What to type in place of a command line whose options stand before what they belong to; `None`
/// if there is nothing behind them. `words` are those behind the name of this command.
pub fn misplaced_options(words: &[OsString]) -> Option<String> {
    let is_option = |word: &OsString| word.as_encoded_bytes().starts_with(b"-");
    let at = words.iter().position(|word| !is_option(word))?;
    let first = words.first().filter(|_| at > 0)?;
    let command = CommandLine::command();
    let is_command = |at: usize| {
        let name = words.get(at)?.to_str()?;
        let mut commands = command.get_subcommands();
        let found = commands.find(|it| it.get_name() == name && !it.is_hide_set());
        found.map(|it| (at, it.get_name()))
    };
    // The last option may have a value.
    let (belong_to, before, after) = match is_command(at).or_else(|| is_command(at + 1)) {
        Some((at, name)) => (name, &words[..at], &words[at + 1..]),
        None => ("record", words, &words[..0]),
    };
    let typed = before.iter().chain(after);
    let typed: Vec<_> = typed.map(|it| word(it)).collect();
    Some(format!(
        "options such as {} belong to {belong_to}: allotrope {belong_to} {}",
        first.shown(),
        typed.join(" ")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn each_command_is_in_one_group_and_a_dozen_are_listed() {
        let groups = GROUPS.iter();
        let names = groups.flat_map(|it| it.listed.iter().chain(it.others));
        let names: Vec<&str> = names.copied().collect();
        let set: BTreeSet<&str> = names.iter().copied().collect();
        assert_eq!(names.len(), set.len());
        let root = CommandLine::command();
        let shown = root.get_subcommands().filter(|it| !it.is_hide_set());
        let shown: BTreeSet<&str> = shown.map(clap::Command::get_name).collect();
        assert_eq!(set, shown);
        let listed: usize = GROUPS.iter().map(|it| it.listed.len()).sum();
        assert!(listed <= 12, "{listed}");
    }

    #[test]
    fn the_help_lists_a_dozen_commands_and_all_of_them_when_asked() {
        let help = with_groups(false).render_help().to_string();
        let all = with_groups(true).render_help().to_string();
        for (name, is_listed) in [("report", true), ("diff", true), ("postmortem", false)] {
            let line = format!("\n  {name} ");
            assert_eq!(help.contains(&line), is_listed, "{name}: {help}");
            assert!(all.contains(&line), "{name}: {all}");
        }
        assert!(help.contains("Show where a recorded program's allocations come from"));
    }

    #[test]
    fn options_before_what_they_belong_to_are_explained() {
        let said = |line: &str| {
            let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
            misplaced_options(&words)
        };
        assert_eq!(
            said("-q ls -l").as_deref(),
            Some("options such as -q belong to record: allotrope record -q ls -l")
        );
        assert_eq!(
            said("--top=5 report x.allotrope").as_deref(),
            Some("options such as --top=5 belong to report: allotrope report --top=5 x.allotrope")
        );
        assert_eq!(
            said("--top 5 report x.allotrope").as_deref(),
            Some("options such as --top belong to report: allotrope report --top 5 x.allotrope")
        );
        assert_eq!(said("--nonsense"), None);
    }
}
