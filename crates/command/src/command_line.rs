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
    mark, paths, postmortem, record, replay, report, show, standby, stat, symbolize, test, view,
    watch,
};

/// Shown in the help.
const USAGE: &str = "\
allotrope PROGRAM [ARGS]...      record it, then show what stands out
       allotrope SUBCOMMAND [OPTIONS]   (a program with a subcommand's name: ./report)";

/// Shows where a Linux program's heap allocations come from and what they cost.
#[derive(Debug, Parser)]
#[command(name = "allotrope", version, after_help = exit_status::DOCUMENTATION,
          max_term_width = 100, override_usage = USAGE)]
pub struct CommandLine {
    /// What to do
    #[command(subcommand)]
    pub subcommand: Subcommand,
}

/// The subcommands.
#[derive(Debug, clap::Subcommand)]
pub enum Subcommand {
    /// Run a program and record every heap allocation with its call stack
    #[command(after_help = record::AFTER_HELP)]
    Record(record::Arguments),
    /// Show where a recorded program's allocations come from
    #[command(after_help = report::AFTER_HELP)]
    Report(report::Arguments),
    /// Show a finding, a site or a function of a recording in full
    #[command(after_help = show::AFTER_HELP)]
    Show(show::Arguments),
    /// Look at a recording, or at the comparison of two, in the browser
    #[command(after_help = view::AFTER_HELP)]
    View(view::Arguments),
    /// Run a program and show what it has allocated and freed, a line a second
    #[command(after_help = stat::AFTER_HELP)]
    Stat(stat::Arguments),
    /// Start a program that can be watched later
    #[command(after_help = standby::AFTER_HELP)]
    Standby(standby::Arguments),
    /// Watch running processes: which stacks hold how much, estimated from samples
    #[command(after_help = watch::AFTER_HELP)]
    Watch(watch::Arguments),
    /// Show what was live in a watched or prepared process that was killed or has crashed
    #[command(after_help = postmortem::AFTER_HELP)]
    Postmortem(postmortem::Arguments),
    /// Name the present moment of a running recording
    #[command(after_help = mark::AFTER_HELP)]
    Mark(mark::Arguments),
    /// Show which call stacks make the difference between two recordings
    #[command(after_help = diff::AFTER_HELP, override_usage = diff::USAGE)]
    Diff(diff::Arguments),
    /// Repeat a recorded program's calls with other allocators and compare them
    #[command(after_help = replay::AFTER_HELP)]
    Replay(replay::Arguments),
    /// Report on allocators with a recorded program's calls: is switching worth it, and why
    #[command(after_help = allocators::AFTER_HELP)]
    Allocators(allocators::Arguments),
    /// Compare allocators by patterns of calls, without a recording
    #[command(after_help = bench::AFTER_HELP)]
    Bench(bench::Arguments),
    /// Write a recording in a format that other tools open
    #[command(after_help = export::AFTER_HELP)]
    Export(export::Arguments),
    /// Add names to a trace, from debug files that were not there when it was recorded
    #[command(after_help = symbolize::AFTER_HELP)]
    Symbolize(symbolize::Arguments),
    /// Show where the CPU time of a running program goes inside its allocator
    #[command(after_help = cpu::AFTER_HELP)]
    Cpu(cpu::Arguments),
    /// Count the instructions of allocators' operations exactly, path by path
    #[command(after_help = paths::AFTER_HELP)]
    Paths(paths::Arguments),
    /// Run tests and compare what they allocate with accepted numbers
    #[command(after_help = test::AFTER_HELP)]
    Test(test::Arguments),
    /// Build and test two revisions and show which call stacks make the difference
    #[command(after_help = compare::AFTER_HELP)]
    Compare(compare::Arguments),
    /// Check whether this machine can record and a program can be recorded, and if not, why
    #[command(after_help = doctor::AFTER_HELP)]
    Doctor(doctor::Arguments),
    /// Write the C and C++ header with which a program opens windows and reports blocks
    #[command(after_help = client_header::AFTER_HELP)]
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
}
