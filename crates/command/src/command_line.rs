//! The declaration of the command line, from which clap derives the parser,
//! `--help`, the manual pages and the completions. Each subcommand declares its
//! arguments in its own file.

use std::ffi::OsString;

use clap::Parser;

use crate::exit_status;
use crate::input_limit::InputLimit;
use crate::shell_files::arguments::{CompletionsArguments, ManArguments};
use crate::{
    allocators, bench, client_header, compare, cpu, diff, doctor, exec_program, export, holder,
    mark, paths, postmortem, record, recorder, replay, report, show, standby, stat, symbolize,
    test, view, watch,
};

/// Shown in the help.
const USAGE: &str = "\
allotrope PROGRAM [ARGS]...      record it, then show what stands out
       allotrope SUBCOMMAND [OPTIONS]   (a program with a subcommand's name: ./report)";

/// Shows where a Linux program's heap allocations come from and what they cost.
#[derive(Debug, Parser)]
#[command(name = "allotrope", version, after_long_help = exit_status::DOCUMENTATION,
          max_term_width = 100, override_usage = USAGE, mut_subcommands = with_name_to_record)]
pub struct CommandLine {
    /// What to do
    #[command(subcommand)]
    pub subcommand: Subcommand,
}

/// Adds to the help of a subcommand how to record a program of its name, which `allotrope NAME`
/// does not do.
fn with_name_to_record(command: clap::Command) -> clap::Command {
    let name = command.get_name();
    let sentence = format!("To record a program named {name}: allotrope record -- {name}");
    // A negative number is no option: the parser of the value says what to write.
    let command = command.mut_args(|it| match it.get_action().takes_values() {
        true if !it.is_positional() => it.allow_negative_numbers(true),
        _ => it,
    });
    let long = match command.get_after_long_help() {
        Some(text) => format!("{text}\n\n{sentence}"),
        None => sentence.clone(),
    };
    command.after_help(sentence).after_long_help(long)
}

/// The subcommands.
#[derive(Debug, clap::Subcommand)]
pub enum Subcommand {
    /// Run a program and record each heap allocation with its stack
    #[command(after_long_help = record::AFTER_HELP)]
    Record(record::Arguments),
    /// Show where a recorded program's allocations come from
    #[command(after_long_help = report::AFTER_HELP)]
    Report(report::Arguments),
    /// Show a finding, a site or a function of a recording in full
    #[command(after_long_help = show::AFTER_HELP)]
    Show(show::Arguments),
    /// Look at a recording, or at what changed, in the browser
    #[command(after_long_help = view::AFTER_HELP)]
    View(view::Arguments),
    /// Run a program and show what it allocates, a line a second
    #[command(after_long_help = stat::AFTER_HELP)]
    Stat(stat::Arguments),
    /// Start a program that can be watched later
    #[command(after_long_help = standby::AFTER_HELP)]
    Standby(standby::Arguments),
    /// Write the recorder to a file that can be preloaded anywhere
    ///
    /// A process that preloads it can be watched, without another command line.
    #[command(after_long_help = recorder::AFTER_HELP)]
    Recorder(recorder::Arguments),
    /// Watch running processes: which stacks hold how much
    ///
    /// The figures are estimated from samples.
    #[command(after_long_help = watch::AFTER_HELP)]
    Watch(watch::Arguments),
    /// Show what was live in a process that was killed or crashed
    ///
    /// It must have been watched, or prepared to be watched.
    #[command(after_long_help = postmortem::AFTER_HELP)]
    Postmortem(postmortem::Arguments),
    /// Name the present moment of a running recording
    #[command(after_long_help = mark::AFTER_HELP)]
    Mark(mark::Arguments),
    /// Show which call stacks make two recordings differ
    #[command(after_long_help = diff::AFTER_HELP, override_usage = diff::USAGE)]
    Diff(diff::Arguments),
    /// Repeat a recorded program's calls with other allocators
    #[command(after_long_help = replay::AFTER_HELP)]
    Replay(replay::Arguments),
    /// Report on allocators with a recorded program's calls
    ///
    /// Is switching worth it, and why.
    #[command(after_long_help = allocators::AFTER_HELP)]
    Allocators(allocators::Arguments),
    /// Compare allocators by patterns of calls, without a recording
    #[command(after_long_help = bench::AFTER_HELP)]
    Bench(bench::Arguments),
    /// Write a recording in a format that other tools open
    #[command(after_long_help = export::AFTER_HELP)]
    Export(export::Arguments),
    /// Add names to a trace, from debug files that came later
    #[command(after_long_help = symbolize::AFTER_HELP)]
    Symbolize(symbolize::Arguments),
    /// Show where CPU time goes inside a program's allocator
    #[command(after_long_help = cpu::AFTER_HELP)]
    Cpu(cpu::Arguments),
    /// Count the instructions of allocators' operations, by path
    #[command(after_long_help = paths::AFTER_HELP)]
    Paths(paths::Arguments),
    /// Run tests and compare what they allocate with accepted numbers
    #[command(after_long_help = test::AFTER_HELP)]
    Test(test::Arguments),
    /// Build and test two revisions and show what changed
    ///
    /// Which call stacks make the difference.
    #[command(after_long_help = compare::AFTER_HELP)]
    Compare(compare::Arguments),
    /// Check whether recording works here, and if not, why
    ///
    /// Whether this machine can record and a program can be recorded.
    #[command(after_long_help = doctor::AFTER_HELP)]
    Doctor(doctor::Arguments),
    /// Write the C header with which a program opens windows
    ///
    /// The header is for C and C++; with it a program also reports blocks.
    #[command(after_long_help = client_header::AFTER_HELP)]
    ClientHeader(client_header::Arguments),
    /// Print a completion script for a shell
    Completions(CompletionsArguments),
    /// Print the manual page
    Man(ManArguments),
    /// Run the collector of a recording
    #[command(name = record::COLLECTOR_NAME, hide = true)]
    Collect,
    /// Exec the program to record
    #[command(name = exec_program::NAME, hide = true)]
    Exec(exec_program::Arguments),
    /// Keep the memories of prepared processes
    #[command(name = holder::NAME, hide = true)]
    Hold(holder::Arguments),
    /// A word that is no subcommand: a program to record, and its arguments
    #[command(external_subcommand)]
    Program(Vec<OsString>),
}

impl Subcommand {
    /// How much memory and output the files that the command reads may cost, if that is limited.
    pub fn input_limit(&self) -> Option<InputLimit> {
        match self {
            Self::Report(it) => Some(it.input),
            Self::Show(it) => Some(it.input),
            Self::View(it) => Some(it.input),
            Self::Diff(it) => Some(it.input),
            Self::Export(it) => Some(it.input),
            Self::Symbolize(it) => Some(it.input),
            Self::Replay(it) => Some(it.input),
            Self::Allocators(it) => Some(it.input),
            Self::Paths(it) => Some(it.input),
            _ => None,
        }
    }

    /// Whether a signal that ends the command is to remove what it has not finished. `view` handles
    /// signals itself; those that use a pager leave the interrupt key to it, and write at the end.
    pub fn removes_at_signals(&self) -> bool {
        match self {
            Self::Report(_) | Self::Show(_) | Self::View(_) => false,
            Self::Postmortem(_) => true,
            _ => self.input_limit().is_some(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_declaration_is_valid() {
        CommandLine::command().debug_assert();
    }

    #[test]
    fn a_word_that_is_no_subcommand_is_a_program() {
        for words in [
            &["./prog", "--top", "-x"][..],
            &["prog"],
            &["./report", "x"],
        ] {
            let all = ["allotrope"].iter().chain(words);
            let Subcommand::Program(command) = CommandLine::parse_from(all).subcommand else {
                panic!("{words:?} is no program");
            };
            assert_eq!(command, words);
        }
        let report = CommandLine::parse_from(["allotrope", "report", "x"]).subcommand;
        assert!(matches!(report, Subcommand::Report(_)));
        assert!(CommandLine::try_parse_from(["allotrope"]).is_err());
        assert!(CommandLine::try_parse_from(["allotrope", "--nonsense"]).is_err());
    }

    #[test]
    fn arguments_after_the_program_belong_to_it() {
        let words = ["allotrope", "record", "-q", "prog", "-o", "x", "--", "-q"];
        let Subcommand::Record(arguments) = CommandLine::parse_from(words).subcommand else {
            panic!("not record");
        };
        assert_eq!(arguments.command(), ["prog", "-o", "x", "--", "-q"]);
        let words = ["allotrope", "record", "--", "prog", "--no-follow"];
        let Subcommand::Record(arguments) = CommandLine::parse_from(words).subcommand else {
            panic!("not record");
        };
        assert_eq!(arguments.command(), ["prog", "--no-follow"]);
        assert!(
            CommandLine::try_parse_from(["allotrope", "record", "--nonsense", "prog"]).is_err()
        );
        assert!(CommandLine::try_parse_from(["allotrope", "record"]).is_err());
    }

    /// What `-h` prints in 80 columns.
    fn short_help(command: &clap::Command) -> String {
        let mut command = command.clone().term_width(80);
        command.render_help().to_string()
    }

    #[test]
    fn the_short_help_of_every_command_fits_40_lines() {
        let mut root = CommandLine::command();
        root.build();
        let all = std::iter::once(&root).chain(root.get_subcommands());
        let texts = all.filter(|it| !it.is_hide_set()).map(short_help);
        let long: Vec<String> = texts.filter(|it| it.lines().count() > 40).collect();
        assert!(long.is_empty(), "{}", long.join("\n\n"));
    }

    #[test]
    fn each_command_says_how_to_record_a_program_of_its_name() {
        let mut root = CommandLine::command();
        root.build();
        for command in root.get_subcommands_mut() {
            let name = command.get_name().to_owned();
            if command.is_hide_set() || name == "help" {
                continue;
            }
            let sentence = format!("To record a program named {name}: allotrope record -- {name}");
            assert!(
                command.render_help().to_string().contains(&sentence),
                "{name}"
            );
            let long = command.render_long_help().to_string();
            assert!(long.contains(&sentence), "{name}");
        }
    }

    #[test]
    fn old_words_mean_what_new_words_mean() {
        let same = [
            ("export f --to folded", "export f --format folded"),
            ("watch 1 --save f", "watch 1 --output f"),
            ("watch 1 --save f --force", "watch 1 -o f --force"),
            ("stat --interval 2s prog", "stat --every 2s prog"),
            ("cpu --operations 5 prog", "cpu --divide-by 5 prog"),
            ("paths f --operations 5", "paths f --sample 5"),
            ("allocators f --operations 5", "allocators f --sample 5"),
            ("allocators f --before a=b", "allocators f --earlier a=b"),
            ("report f --window w --run 2", "report f --window w --nth 2"),
            ("report f --findings x", "report f --suppress-findings x"),
            ("show f --findings x", "show f --suppress-findings x"),
            ("view f --findings x", "view f --suppress-findings x"),
            ("report f --sort bytes", "report f --metric bytes"),
            ("report f --stack x", "report f --filter x"),
            ("diff a b --stack x", "diff a b --filter x"),
            ("report f --persisted", "report f --leaked-only"),
            ("report f --destroyed", "report f --freed-only"),
        ];
        let parsed = |line: &str| {
            let words = ["allotrope"].into_iter().chain(line.split(' '));
            let subcommand = CommandLine::parse_from(words).subcommand;
            format!("{subcommand:?}")
        };
        for (old, new) in same {
            assert_eq!(parsed(old), parsed(new), "{old}");
        }
    }

    /// What is said about a value of an option that is none of its values.
    fn refusals(value: &str) -> Vec<(String, String)> {
        let root = CommandLine::command();
        let mut all = Vec::new();
        for command in root.get_subcommands().filter(|it| !it.is_hide_set()) {
            for option in command.get_arguments() {
                let requires_equals = option.is_require_equals_set();
                let option = match option.get_long() {
                    Some(long) if option.get_action().takes_values() => format!("--{long}"),
                    _ => continue,
                };
                let typed = match requires_equals {
                    true => vec![format!("{option}={value}")],
                    false => vec![option, value.to_owned()],
                };
                let words = ["allotrope".to_owned(), command.get_name().to_owned()];
                let words = [&words[..], &typed].concat();
                if let Err(error) = CommandLine::try_parse_from(&words) {
                    all.push((words.join(" "), error.to_string()));
                }
            }
        }
        all
    }

    #[test]
    fn a_wrong_value_is_answered_with_what_to_write() {
        let words_of_a_library = [
            "invalid digit",
            "number too large",
            "out of range",
            "invalid float",
            "is not in ",
            "unexpected argument",
            "cannot parse",
        ];
        for value in ["abc", "-7", "1.5x", "99999999999999999999999"] {
            for (typed, said) in refusals(value) {
                let found = words_of_a_library.iter().find(|it| said.contains(**it));
                assert_eq!(found, None, "{typed}: {said}");
            }
        }
    }

    #[test]
    fn lists_have_10_lines_if_nothing_else_is_wanted() {
        let root = CommandLine::command();
        for command in root.get_subcommands() {
            for top in command
                .get_arguments()
                .filter(|it| it.get_long() == Some("top"))
            {
                let default: Vec<_> = top.get_default_values().iter().collect();
                let is_10 = default == ["10"] || command.get_name() == "report";
                assert!(is_10, "{}: {default:?}", command.get_name());
            }
        }
    }
}
