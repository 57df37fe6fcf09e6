//! Recognises output of tools that cannot be read, for it is a report without the stacks or about
//! something else than allocations, and says what can be read instead.

use std::fmt;

/// Output that cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Foreign {
    /// Whose output it is, as the end of a sentence about a file: `a report of poireau.py`.
    pub what: &'static str,
    /// What to give instead.
    pub remedy: &'static str,
}

impl fmt::Display for Foreign {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "is {}; {}", self.what, self.remedy)
    }
}

const HEAPTRACK_RAW: Foreign = Foreign {
    what: "heaptrack's raw file, whose addresses have no names yet",
    remedy: "zstd -dc FILE | /usr/lib/heaptrack/libexec/heaptrack_interpret > OUT makes a file that is read",
};
const STACKDIFF: Foreign = Foreign {
    what: "the output of stackdiff, which has only differences",
    remedy: "give the two files that it compared to allotrope diff",
};
const POIREAU: Foreign = Foreign {
    what: "a report of poireau.py, which has single samples and no sums",
    remedy: "give what poireau.py read, the output of perf trace or perf script, to allotrope watch --perf-script",
};
const PERF_REPORT: Foreign = Foreign {
    what: "a report of perf, which has shares and no stacks of allocations",
    remedy: "of probes at allocations give perf script's output to allotrope watch --perf-script; allotrope cpu shows the CPU time of an allocator",
};
const PERF_SCRIPT: Foreign = Foreign {
    what: "perf script's output",
    remedy: "of probes at allocations give it to allotrope watch --perf-script; of samples of CPU time it has no allocations, and allotrope cpu shows the CPU time of an allocator",
};
const PERF_STAT: Foreign = Foreign {
    what: "perf stat's output, which has counters and no stacks",
    remedy: "allotrope cpu --count reads counters for each allocation; allotrope record records the stacks",
};

/// Lines that are inspected.
const INSPECTED: usize = 200;

/// The tool that writes such lines.
pub(crate) fn recognise<'a>(lines: impl Iterator<Item = &'a str>) -> Option<Foreign> {
    let lines: Vec<&str> = lines.take(INSPECTED).collect();
    let is_raw = matches!(lines[..], [version, executable, ..]
        if version.starts_with("v ") && executable.starts_with("x "));
    if is_raw {
        return Some(HEAPTRACK_RAW);
    }
    lines.iter().enumerate().find_map(|(index, line)| {
        let next = lines.get(index + 1).copied().unwrap_or_default();
        of_lines(line, next)
    })
}

fn of_lines(line: &str, next: &str) -> Option<Foreign> {
    let is_head = |text: &str| line.trim_end() == text;
    if is_head("### only in BEFORE") || is_head("### only in AFTER") {
        return Some(STACKDIFF);
    }
    if line.starts_with("\tsize=") && line.contains(" c_age=") && line.contains(" alloc=") {
        return Some(POIREAU);
    }
    if line.starts_with("# Overhead ") || line.starts_with("# Children ") {
        return Some(PERF_REPORT);
    }
    if line
        .trim_start()
        .starts_with("Performance counter stats for ")
    {
        return Some(PERF_STAT);
    }
    is_sample(line, next).then_some(PERF_SCRIPT)
}

/// `app 12 [001] 34.567890:  250000 cycles:` before `\t  15c78 main+0x5e (/srv/app)`.
fn is_sample(line: &str, next: &str) -> bool {
    let is_time = |word: &str| {
        let time = word.strip_suffix(':');
        time.is_some_and(|time| {
            let digits =
                |text: &str| !text.is_empty() && text.bytes().all(|it| it.is_ascii_digit());
            time.split_once('.')
                .is_some_and(|(seconds, part)| digits(seconds) && digits(part))
        })
    };
    let mut frame = next.split_whitespace();
    let address = frame.next().unwrap_or_default();
    let is_frame = next.starts_with(['\t', ' '])
        && !address.is_empty()
        && address.bytes().all(|byte| byte.is_ascii_hexdigit())
        && next.trim_end().ends_with(')');
    is_frame
        && !line.starts_with(['\t', '#'])
        && line.split_whitespace().any(is_time)
        && line.trim_end().ends_with(':')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_tools_outputs_are_recognised() {
        for (text, expected) in [
            ("v 10400 3\nx 7 /tmp/app\nX ./app\n", Some(HEAPTRACK_RAW)),
            ("v 10400 3\nX ./app\ns 7 /tmp/app\n", None),
            ("### only in AFTER\n11000\nlib`malloc\n", Some(STACKDIFF)),
            (
                "2026-01-01 live allocations\n\tsize=10 c_age=1.5 alloc=f;main\n",
                Some(POIREAU),
            ),
            (
                "# To display\n#\n# Samples: 11  of event 'cycles'\n#\n# Overhead  Command  Shared Object\n",
                Some(PERF_REPORT),
            ),
            ("# Children      Self  Command\n", Some(PERF_REPORT)),
            (
                "sleep 13403  2801.303628:     250000 cpu-clock:ppp: \n\t           15c78 init+0x5e8 (/usr/lib/ld.so)\n",
                Some(PERF_SCRIPT),
            ),
            (
                "my app 1/2 [001] 2801.303628: probe:malloc: \n\tffff main+0x1 (/app)\n",
                Some(PERF_SCRIPT),
            ),
            (
                "\n Performance counter stats for 'true':\n\n",
                Some(PERF_STAT),
            ),
            ("lib`f+0x1\n   3\n", None),
            ("Time: 5.5: it was\n\tadd (more)\n", None),
        ] {
            assert_eq!(recognise(text.lines()), expected, "{text}");
        }
    }
}
