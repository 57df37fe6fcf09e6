use super::*;
use crate::error::Location;
use crate::readers::tests::describe;

fn parse(text: &str) -> Result<Parsed, Fault> {
    read(&mut text.as_bytes(), &Budget::default())
}

fn document(unit: &str, points: &str) -> String {
    format!(
        r#"{{"dhatFileVersion":2,"mode":"heap","verb":"Allocated","bklt":true,"bkacc":true
,"tu":"{unit}","Mtu":"s","tuth":10,"cmd":"./p 1","pid":7,"te":9,"tg":8
,"pps":[{points}]
,"ftbl":["[root]","0x10: malloc (in /v.so)","0x20: leaf (p.c:3)","0x20: main (p.c:8)"]}}"#
    )
}

const POINT: &str = r#"{"tb":160,"tbk":10,"tl":45,"mb":16,"mbk":1,"gb":32,"gbk":2,"eb":48,"ebk":3,
"rb":0,"wb":0,"acc":[-16,0],"fs":[1,2,3]}"#;

#[test]
fn figures_and_frames_are_read() {
    let set = parse(&document("µs", POINT)).unwrap().set;
    assert_eq!(describe(&set), ["v.so`malloc `leaf `main = 10"]);
    assert_eq!(set.title, "./p 1");
    for (metric, figure) in [
        (Metric::Allocations, 10),
        (Metric::Bytes, 160),
        (Metric::LeakedAllocations, 3),
        (Metric::LeakedBytes, 48),
        (Metric::PeakAllocations, 2),
        (Metric::PeakBytes, 32),
        (Metric::Lifetime, 45),
    ] {
        assert!(set.known.has(metric), "{metric}");
        assert_eq!(set.stacks[0].figures[metric as usize], figure, "{metric}");
    }
    assert!(set.frames[1].inlined && !set.frames[2].inlined);
    assert!(!set.known.has(Metric::Temporary));
    assert_eq!(set.stacks[0].figures[Metric::Temporary as usize], 0);
}

#[test]
fn lifetimes_in_instructions_are_unknown() {
    let set = parse(&document("instrs", POINT)).unwrap().set;
    assert!(!set.known.has(Metric::Lifetime));
    assert_eq!(set.stacks[0].figures[Metric::Lifetime as usize], 0);
}

#[test]
fn without_lifetimes_only_totals_are_known() {
    let text = r#"{"dhatFileVersion":2,"mode":"ad-hoc","bklt":false,"tu":"instrs",
"pps":[{"tb":5,"tbk":1,"fs":[1]}],"ftbl":["[root]","f"]}"#;
    let parsed = parse(text).unwrap();
    assert_eq!(
        parsed.set.known,
        MetricSet::of(&[Metric::Allocations, Metric::Bytes])
    );
    assert_eq!(parsed.notes.len(), 1, "ad hoc events are no allocations");
}

#[test]
fn invalid_documents_are_errors() {
    for (text, location) in [
        (
            document("µs", r#"{"tb":1,"tbk":1,"fs":[9]}"#),
            Location::Whole,
        ),
        (
            document("µs", r#"{"tb":-1,"tbk":1,"fs":[1]}"#),
            Location::Line(3),
        ),
        (document("µs", r#"{"tb":1,"tbk":1}"#), Location::Line(3)),
        (
            document("µs", r#"{"tb":99999999999999999999,"tbk":1,"fs":[1]}"#),
            Location::Line(3),
        ),
        (document("µs", "{"), Location::Line(3)),
        (
            r#"{"dhatFileVersion":1,"pps":[],"ftbl":[]}"#.to_owned(),
            Location::Line(1),
        ),
        (document("µs", "")[..50].to_owned(), Location::Line(1)),
        (format!("{}x", document("µs", "")), Location::Line(4)),
    ] {
        assert_eq!(parse(&text).unwrap_err().location, location, "{text}");
    }
}

#[test]
fn an_endless_stack_is_refused() {
    let frames = "1,".repeat(crate::budget::MAX_DEPTH + 1);
    let text = document("µs", &format!(r#"{{"tb":1,"tbk":1,"fs":[{frames}1]}}"#));
    let problem = parse(&text).unwrap_err().problem.to_string();
    assert!(problem.contains("frames in one stack"), "{problem}");
}

#[test]
fn an_endless_string_is_refused() {
    let text = format!(
        r#"{{"dhatFileVersion":2,"cmd":"{}"#,
        "x".repeat(crate::lines::MAX_LINE + 10)
    );
    let problem = parse(&text).unwrap_err().problem.to_string();
    assert!(problem.contains("a string is longer"), "{problem}");
}

/// What valgrind writes for a C program that does nothing.
#[test]
fn a_file_without_points_is_of_a_program_without_allocations() {
    let text = r#"{"dhatFileVersion":2
,"mode":"heap","verb":"Allocated"
,"bklt":true,"bkacc":true
,"tu":"instrs","Mtu":"Minstr"
,"tuth":500
,"cmd":"./none"
,"pid":4774
,"te":147597
,"tg":0
,"pps":
 [
 ]
,"ftbl":
 ["[root]"
 ]
}
"#;
    let read = crate::read_bytes("none.dhat", text.as_bytes()).unwrap();
    assert!(read.set.stacks.is_empty());
    assert!(read.set.known.has(Metric::PeakBytes));
    assert_eq!(read.set.run.pid, Some(4774));
    // The times are in instructions.
    assert_eq!(read.set.run.duration_us, None);
    assert_eq!(read.notes.len(), 1, "{:?}", read.notes);
}
