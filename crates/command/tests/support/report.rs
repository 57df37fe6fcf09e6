//! Reads `allotrope report --format json`, and sums over sites selected by their
//! frames.

use std::ffi::OsStr;
use std::path::Path;

use serde_json::Value;

use super::{record, schema};

/// A report. Reading it checks its form and that its sites add up.
pub struct Report {
    pub json: Value,
    /// The stderr of `report`.
    pub warnings: String,
}

/// One process image of a report.
#[derive(Clone, Copy)]
pub struct Process<'a> {
    pub json: &'a Value,
    frames: &'a [Value],
}

/// Sums over some sites of an image.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Sums {
    pub allocations: u64,
    pub bytes: u64,
    pub temporary: u64,
    pub leaked: u64,
    pub leaked_bytes: u64,
    pub at_peak: u64,
    pub bytes_at_peak: u64,
}

impl Report {
    /// The report of a trace that can be read.
    #[track_caller]
    pub fn of(trace: &Path) -> Self {
        let words = ["report", "--format", "json"].map(OsStr::new);
        let ended = record::allotrope(words.into_iter().chain([trace.as_os_str()])).ok();
        let (json, warnings) = (ended.json(), ended.errors());
        schema::check(&json);
        Self { json, warnings }
    }

    /// All images in order of start.
    pub fn processes(&self) -> Vec<Process<'_>> {
        let frames = self.json["frames"].as_array().expect("checked").as_slice();
        self.json["processes"]
            .as_array()
            .expect("checked")
            .iter()
            .map(|json| Process { json, frames })
            .collect()
    }

    /// The only image.
    #[track_caller]
    pub fn only(&self) -> Process<'_> {
        let processes = self.processes();
        assert_eq!(processes.len(), 1, "processes: {}", self.summary());
        processes[0]
    }

    /// The images whose command contains this argument.
    pub fn with_argument(&self, argument: &str) -> Vec<Process<'_>> {
        self.processes()
            .into_iter()
            .filter(|process| process.command().contains(&argument))
            .collect()
    }

    /// One line for each image, for messages.
    pub fn summary(&self) -> String {
        self.processes()
            .iter()
            .map(|p| {
                format!(
                    "\n  id {} pid {} parent {} {:?} {} {}",
                    p.json["id"],
                    p.json["pid"],
                    p.json["parent_pid"],
                    p.command(),
                    p.json["exit"],
                    p.json["totals"]
                )
            })
            .collect()
    }
}

impl<'a> Process<'a> {
    /// A number of the process that is not among its totals.
    #[track_caller]
    pub fn number(&self, name: &str) -> u64 {
        number(&self.json[name], name)
    }

    /// One of the totals.
    #[track_caller]
    pub fn total(&self, name: &str) -> u64 {
        number(&self.json["totals"][name], name)
    }

    /// The command line.
    pub fn command(&self) -> Vec<&'a str> {
        let words = self.json["command"].as_array().expect("checked");
        words.iter().map(|w| w.as_str().expect("checked")).collect()
    }

    /// How it ended.
    pub fn exit(&self) -> &'a Value {
        &self.json["exit"]
    }

    /// The frames of a site, innermost first.
    pub fn stack(&self, site: &Value) -> Vec<&'a Value> {
        let stack = site["stack"].as_array().expect("checked");
        stack
            .iter()
            .map(|index| &self.frames[index.as_u64().expect("checked") as usize])
            .collect()
    }

    /// The functions of a site, innermost first.
    pub fn functions(&self, site: &Value) -> Vec<&'a str> {
        self.stack(site)
            .iter()
            .map(|f| text(f, "function"))
            .collect()
    }

    /// All sites.
    pub fn sites(&self) -> &'a [Value] {
        self.json["sites"].as_array().expect("checked")
    }

    /// The sites whose stack contains the function.
    pub fn sites_under(&self, function: &str) -> Vec<&'a Value> {
        self.sites()
            .iter()
            .filter(|site| self.functions(site).contains(&function))
            .collect()
    }

    /// The only site whose stack contains the function.
    #[track_caller]
    pub fn site_under(&self, function: &str) -> &'a Value {
        let sites = self.sites_under(function);
        assert_eq!(sites.len(), 1, "sites under {function}");
        sites[0]
    }

    /// Sums over the sites whose stack contains the function.
    pub fn under(&self, function: &str) -> Sums {
        sum(self.sites_under(function))
    }

    /// Sums over the sites whose innermost frame in `module` is the function.
    pub fn by(&self, module: &str, function: &str) -> Sums {
        sum(self.sites().iter().filter(|site| {
            self.stack(site)
                .iter()
                .find(|frame| text(frame, "module") == module)
                .is_some_and(|frame| text(frame, "function") == function)
        }))
    }

    /// Sums over the sites whose stack fulfils `holds`.
    pub fn where_stack(&self, holds: impl Fn(&[&'a Value]) -> bool) -> Sums {
        sum(self.sites().iter().filter(|site| holds(&self.stack(site))))
    }
}

/// Text of a frame's field.
#[track_caller]
pub fn text<'a>(frame: &'a Value, name: &str) -> &'a str {
    frame[name]
        .as_str()
        .unwrap_or_else(|| panic!("{name} is no text in {frame}"))
}

fn sum<'a>(sites: impl IntoIterator<Item = &'a Value>) -> Sums {
    sites.into_iter().fold(Sums::default(), |sums, site| {
        let field = |name: &str| number(&site[name], name);
        Sums {
            allocations: sums.allocations + field("allocations"),
            bytes: sums.bytes + field("allocated_bytes"),
            temporary: sums.temporary + field("temporary_allocations"),
            leaked: sums.leaked + field("leaked_allocations"),
            leaked_bytes: sums.leaked_bytes + field("leaked_bytes"),
            at_peak: sums.at_peak + field("allocations_at_peak"),
            bytes_at_peak: sums.bytes_at_peak + field("bytes_at_peak"),
        }
    })
}

#[track_caller]
fn number(value: &Value, name: &str) -> u64 {
    value
        .as_u64()
        .unwrap_or_else(|| panic!("{name} is no count: {value}"))
}
