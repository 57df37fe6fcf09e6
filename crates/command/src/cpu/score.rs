//! The program's own figure: a number before a unit in a line that it prints. Its output passes
//! through this process, unchanged.

use std::io::{Read, Write};
use std::process::ChildStdout;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use allotrope_allocators::cpu::Score;

use super::PAUSE;

/// Longest line in which a score is looked for, in bytes.
const MAX_LINE: usize = 1 << 16;
/// Largest number of scores.
const MAX_SCORES: usize = 1000;
/// How long the end of the output is waited for: a child of the program may keep it open.
const WAIT: Duration = Duration::from_secs(1);

/// Passes the program's output on, and looks for lines with this unit.
pub fn pass_on(mut from: ChildStdout, unit: String) -> JoinHandle<Vec<Score>> {
    std::thread::spawn(move || {
        let mut scores = Vec::new();
        let mut line = Vec::new();
        let mut buffer = [0; 1 << 14];
        let mut is_open = true;
        while let Ok(read @ 1..) = from.read(&mut buffer) {
            let bytes = &buffer[..read];
            if is_open {
                let mut out = std::io::stdout().lock();
                is_open = out.write_all(bytes).and_then(|()| out.flush()).is_ok();
            }
            if !is_open {
                // The program ends as it would have: nobody reads its output.
                break;
            }
            for byte in bytes {
                if *byte == b'\n' {
                    take(&mut line, &unit, &mut scores);
                } else if line.len() < MAX_LINE {
                    line.push(*byte);
                }
            }
        }
        take(&mut line, &unit, &mut scores);
        scores
    })
}

/// Whether a thread ends within a second.
pub fn ended<T>(thread: &JoinHandle<T>) -> bool {
    let end = Instant::now() + WAIT;
    while !thread.is_finished() && Instant::now() < end {
        std::thread::sleep(PAUSE);
    }
    thread.is_finished()
}

fn take(line: &mut Vec<u8>, unit: &str, scores: &mut Vec<Score>) {
    let text = String::from_utf8_lossy(line).into_owned();
    line.clear();
    if let Some(value) = score(&text, unit).filter(|_| scores.len() < MAX_SCORES) {
        scores.push(Score {
            line: text.trim().to_owned(),
            value,
        });
    }
}

/// The number before the unit: `12.5`, `1,234`, `3e6`.
fn score(line: &str, unit: &str) -> Option<f64> {
    let before = line[..line.find(unit)?].trim_end();
    let is_part = |c: char| c.is_ascii_digit() || matches!(c, '.' | ',' | '-' | '+' | 'e' | 'E');
    let start = before
        .char_indices()
        .rev()
        .take_while(|(_, c)| is_part(*c))
        .last()?;
    let number = before[start.0..].replace(',', "");
    number.parse().ok().filter(|it: &f64| it.is_finite())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_score_is_the_number_before_its_unit() {
        let unit = "M ops/sec";
        for (line, value) in [
            ("Throughput: 54.65 M ops/sec", Some(54.65)),
            ("1,234.5M ops/sec in test 3", Some(1234.5)),
            ("3e2 M ops/sec", Some(300.0)),
            ("M ops/sec", None),
            ("fast M ops/sec", None),
            ("54 ops", None),
        ] {
            assert_eq!(score(line, unit), value, "{line}");
        }
    }
}
