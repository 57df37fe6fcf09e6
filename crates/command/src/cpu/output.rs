//! What `allotrope cpu` writes: the report, and a flame graph.

use std::collections::HashSet;
use std::io;
use std::path::Path;

use allotrope_allocators::cpu::{
    Chosen, Operations, Origin, Profile, Score, Session, Wanted, folded, report, text,
};
use allotrope_formats::exporter;
use allotrope_report::flame_graph;
use allotrope_text::{Shown, to_json_writer, word};
use anyhow::anyhow;

use super::arguments::{Arguments, Format};
use super::calls::instructions_of;
use crate::exit_status::{BAD_INPUT, Failure, WithStatus};
use crate::message;
use crate::replacing::{self, Kind};
use crate::style::{Color, style};
use crate::to_write::ToWrite;

/// Whether a file that begins so was written by this command.
fn is_own(head: &[u8]) -> bool {
    allotrope_allocators::cpu::is_report(head)
        || exporter("folded").is_some_and(|it| it.is_own(head))
}

/// Writes a report to an output.
type Write<'a> = Box<dyn FnOnce(&mut dyn io::Write) -> io::Result<()> + 'a>;

impl Arguments {
    pub fn given_operations(&self) -> Option<Operations> {
        self.divide_by.map(|number| Operations {
            number,
            source: Operations::GIVEN,
            again: None,
        })
    }

    pub fn exact_instructions(&self) -> Result<Option<f64>, Failure> {
        self.paths.as_deref().map(instructions_of).transpose()
    }

    /// The file to write.
    fn output(&self) -> Option<ToWrite<'_>> {
        let kind = Kind {
            what: "earlier report of `allotrope cpu`",
            is_own: &is_own,
        };
        let path = self.output.as_deref()?;
        let force = self.force;
        Some(ToWrite { path, kind, force })
    }

    fn graph(&self) -> Option<ToWrite<'_>> {
        let path = self.flamegraph.as_deref()?;
        Some(ToWrite {
            path,
            kind: replacing::FLAME_GRAPH,
            force: self.force,
        })
    }

    fn inputs(&self) -> impl Iterator<Item = &std::path::PathBuf> {
        self.recording.iter().chain(&self.paths)
    }

    /// Fails if a file cannot be written, before the program runs.
    pub fn check_outputs(&self) -> Result<(), Failure> {
        for output in [self.output(), self.graph()].into_iter().flatten() {
            output.check(self.inputs())?;
        }
        let same = |path: &Path| self.flamegraph.as_deref() == Some(path);
        match self.output.as_deref().filter(|it| same(it)) {
            None => Ok(()),
            Some(path) => Err(Failure::new(
                BAD_INPUT,
                anyhow!("-o and --flamegraph name the same file, {}", path.shown()),
            )),
        }
    }

    /// Writes what was asked for.
    pub fn report(
        &self,
        session: &Session,
        operations: Option<Operations>,
        origin: Origin,
        scores: Vec<Score>,
        print: impl FnOnce(Write<'_>) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let locator = self
            .debug_files
            .locator(self.input.limits())
            .status(BAD_INPUT)?;
        let chosen = Chosen::new(self.allocator_functions.clone());
        let wanted = Wanted {
            operations,
            exact_instructions: self.exact_instructions()?,
            chosen: &chosen,
            groups: &self.group,
            annotate: &self.annotate,
            folded: self.flamegraph.is_some() || self.format == Format::Folded,
            origin,
            scores,
        };
        let profile = Profile::new(session, &locator, wanted);
        for pattern in chosen.unmatched() {
            message::print(format_args!(
                "warning: --allocator-functions {pattern}: no sample is in such a function"
            ));
        }
        for annotation in &profile.annotations {
            if let Some(problem) = &annotation.problem {
                let wanted = &annotation.wanted;
                message::print(format_args!("warning: --annotate {wanted}: {problem}"));
            }
        }
        if let Some(graph) = self.graph() {
            graph.create(self.inputs(), |out| draw(&profile, out))?;
        }
        let write: Write<'_> = Box::new(|out: &mut dyn io::Write| match self.format {
            Format::Text => text::document(&profile, self.top).write_text(style(Color::Never), out),
            Format::Markdown => report::document(&profile, self.top).write_markdown(out),
            Format::Json => {
                to_json_writer(&mut *out, &profile)?;
                writeln!(out)
            }
            Format::Folded => folded::write(&profile.folded, out),
        });
        match self.output() {
            Some(output) => output.create(self.inputs(), write),
            None => print(write),
        }
    }
}

/// Draws the stacks of a profile.
fn draw(profile: &Profile, out: &mut dyn io::Write) -> io::Result<()> {
    let command = profile.origin.command.iter();
    let command: Vec<String> = command.map(|it| word(it.as_ref())).collect();
    let frames = profile.folded.iter().flat_map(|it| &it.frames);
    let marked = frames.filter(|it| it.allocator);
    let graph = flame_graph::Counted {
        title: &command.join(" "),
        about: "red and yellow: the allocator",
        unit: "samples",
        marked: &marked.map(|it| &*it.function).collect::<HashSet<_>>(),
    };
    let stacks = profile.folded.iter().map(|stack| {
        let frames = stack.frames.iter().map(|it| &*it.function);
        (frames, stack.samples)
    });
    graph.write(stacks, out)
}
