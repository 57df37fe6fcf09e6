//! Reads `allotrope-stacks/1`, specified in `stacks_json`. Fields may be in any
//! order and unknown ones are ignored. Unknown metrics are an error, because
//! their figures would be lost.

use std::fmt;
use std::io::BufRead;

use allotrope_profile::{
    CountedStack, FrameForm, Maximum, Metric, MetricSet, MetricValues, StackFrame, StackSet,
};
use serde::Deserialize;
use serde::de::{Error as _, IgnoredAny, MapAccess, Visitor};

use super::excerpt;
use super::json_input::{self, Each};
use crate::budget::Budget;
use crate::error::{Fault, Problem};
use crate::format::Format;
use crate::readers::Parsed;
use crate::stacks_json::FORMAT;

#[derive(Deserialize)]
struct StackForm {
    #[serde(deserialize_with = "json_input::stack")]
    stack: Vec<u32>,
    #[serde(deserialize_with = "json_input::stack_figures")]
    figures: Vec<u64>,
    maximum: Option<[u64; 2]>,
}

#[derive(Default)]
struct Document {
    budget: Budget,
    format: String,
    metrics: Vec<Metric>,
    set: StackSet,
    totals: MetricValues,
}

/// Reads the whole file.
pub(crate) fn read(input: &mut dyn BufRead, budget: &Budget) -> Result<Parsed, Fault> {
    let mut document = Document {
        budget: budget.clone(),
        ..Document::default()
    };
    json_input::read_object(input, Format::Json, Fields(&mut document))?;
    document.finish().map_err(Fault::whole)
}

struct Fields<'a>(&'a mut Document);

impl<'de> Visitor<'de> for Fields<'_> {
    type Value = ();

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "an object of format {FORMAT}")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let document = self.0;
        while let Some(key) = map.next_key::<String>()? {
            match &*key {
                "format" => document.format = map.next_value()?,
                "title" => document.set.title = map.next_value()?,
                "metrics" => {
                    map.next_value_seed(Each::new(|name: String| document.metric(&name)))?;
                }
                "frames" => map.next_value_seed(Each::new(|frame| document.frame(frame)))?,
                "stacks" => map.next_value_seed(Each::new(|stack| document.stack(stack)))?,
                _ => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        if document.format == FORMAT {
            Ok(())
        } else {
            Err(A::Error::custom(format!(
                "the format is \"{}\", not \"{FORMAT}\"; a newer version may be needed",
                excerpt(&document.format)
            )))
        }
    }
}

fn malformed(what: String) -> Problem {
    Problem::Malformed {
        format: Format::Json,
        what,
    }
}

impl Document {
    fn metric(&mut self, name: &str) -> Result<(), Problem> {
        let metric = Metric::OF_STACKS
            .into_iter()
            .find(|metric| metric.key() == name);
        let metric = metric.filter(|metric| !self.metrics.contains(metric));
        let metric = metric.ok_or_else(|| {
            malformed(format!(
                "\"{}\" is no metric, or named twice",
                excerpt(name)
            ))
        })?;
        self.metrics.push(metric);
        Ok(())
    }

    fn frame(&mut self, form: FrameForm<'static>) -> Result<(), Problem> {
        let frame = StackFrame::from(form);
        let text =
            frame.function.len() + frame.signature.len() + frame.module.len() + frame.file.len();
        self.budget.take(size_of::<StackFrame>() + text)?;
        self.set.frames.push(frame);
        Ok(())
    }

    /// Stores the figures in the order of the file until the list of metrics is
    /// known.
    fn stack(&mut self, form: StackForm) -> Result<(), Problem> {
        let mut figures = MetricValues::default();
        for ((stored, total), figure) in figures.iter_mut().zip(&mut self.totals).zip(form.figures)
        {
            *stored = figure;
            *total = total.checked_add(figure).ok_or(Problem::CountsOverflow)?;
        }
        self.budget.take_frames(form.stack.len())?;
        self.budget
            .take(size_of::<CountedStack>() + size_of_val(&*form.stack))?;
        self.set.stacks.push(CountedStack {
            frames: form.stack.into(),
            figures,
            maximum: form
                .maximum
                .map(|[bytes, allocations]| Maximum { bytes, allocations }),
        });
        Ok(())
    }

    fn finish(mut self) -> Result<Parsed, Problem> {
        let frames = self.set.frames.len();
        for (number, stack) in self.set.stacks.iter_mut().enumerate() {
            if let Some(index) = stack.frames.iter().find(|index| **index as usize >= frames) {
                return Err(malformed(format!(
                    "stack {number} names frame {index} of {frames}"
                )));
            }
            let listed = std::mem::take(&mut stack.figures);
            for (metric, figure) in self.metrics.iter().zip(listed) {
                stack.figures[*metric as usize] = figure;
            }
        }
        self.set.known = MetricSet::of(&self.metrics);
        Ok(Parsed {
            set: self.set,
            notes: Vec::new(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Parsed, Fault> {
        read(&mut text.as_bytes(), &Budget::default())
    }

    const FRAME: &str = r#"{"function":"f","signature":"","module":"m","file":"","line":0,
"column":0,"offset":null,"inlined":false,"later":1}"#;

    #[test]
    fn fields_may_be_in_any_order() {
        let text = format!(
            r#"{{"stacks":[{{"figures":[640,10],"stack":[0]}}],"new":[1],"frames":[{FRAME}],
"metrics":["allocated_bytes","allocations"],"title":"t","format":"allotrope-stacks/1"}}"#
        );
        let set = parse(&text).unwrap().set;
        assert_eq!(set.stacks[0].figures[..2], [10, 640]);
        assert_eq!((&*set.title, &*set.frames[0].module), ("t", "m"));
        assert!(!set.known.has(Metric::LeakedBytes));
    }

    #[test]
    fn invalid_documents_are_errors() {
        // One figure more than there are metrics.
        let figures = ["1"; Metric::OF_STACKS.len() + 1].join(",");
        let too_many = format!(
            r#"{{"format":"allotrope-stacks/1","stacks":[{{"stack":[],"figures":[{figures}]}}]}}"#
        );
        for text in [
            r#"{"format":"allotrope-stacks/2"}"#,
            r#"{"format":"allotrope-stacks/1","metrics":["weight"]}"#,
            r#"{"format":"allotrope-stacks/1","metrics":["allocations","allocations"]}"#,
            r#"{"format":"allotrope-stacks/1","stacks":[{"stack":[0],"figures":[1]}]}"#,
            too_many.as_str(),
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
