use super::*;
use crate::budget::Budget;
use crate::error::Location;
use crate::readers::tests::{describe, parse};

/// `main` calls `f`, into which `g` is inlined, and a function without a name.
const TABLES: &str = "v 10400 3
X ./p 1
I 1000 5e2990
s 6 /bin/p
s 4 main
s 3 p.c
s 1 f
s 1 g
i 1000 1 2 3 8
t 1 0
i 2000 1 5 3 a 4 3 14
t 2 1
i 3000 1
t 3 1
a 10 2
a 64 3
";

fn figures(set: &allotrope_profile::StackSet, stack: usize) -> Figures7 {
    let figures = set.stacks[stack].figures;
    std::array::from_fn(|metric| figures[metric])
}

/// Allocations, bytes, temporary, leaked, leaked bytes, at peak, its bytes.
type Figures7 = [u64; 7];

#[test]
fn frames_are_read_from_the_tables() {
    let parsed = parse(&format!("{TABLES}+ 0\n+ 1\n"), read);
    assert_eq!(
        describe(&parsed.set),
        ["p`g p`f p`main = 1", "p`0x3000 p`main = 1"]
    );
    assert_eq!(parsed.set.title, "./p 1");
    let [g, f, main, _] = &parsed.set.frames[..] else {
        panic!("{:?}", parsed.set.frames)
    };
    assert!(g.inlined && !f.inlined && !main.inlined);
    assert_eq!((g.line, f.line, main.line), (0xa, 0x14, 8));
    assert_eq!(&*main.file, "p.c");
}

#[test]
fn figures_are_computed_from_the_events() {
    // Live bytes: 16, 116, 216 (the peak), 200, 100, 116, 216 (again), 200.
    let events = "+ 0\n+ 1\n+ 1\n- 0\n- 1\n+ 0\n+ 1\n- 0\n+ 0\n- 0\n";
    let parsed = parse(&format!("{TABLES}{events}"), read);
    // Info 0 has 0x10 bytes, info 1 has 0x64. The second peak equals the
    // first and a third follows with the last allocation.
    assert_eq!(figures(&parsed.set, 0), [3, 3 * 16, 1, 0, 0, 1, 16]);
    assert_eq!(figures(&parsed.set, 1), [3, 3 * 100, 0, 2, 200, 2, 200]);
    assert!(parsed.notes.is_empty());
}

#[test]
fn changes_after_the_peak_do_not_affect_it() {
    let parsed = parse(&format!("{TABLES}+ 0\n+ 1\n- 0\n- 1\n+ 0\n"), read);
    assert_eq!(figures(&parsed.set, 0), [2, 32, 0, 1, 16, 1, 16]);
    assert_eq!(figures(&parsed.set, 1), [1, 100, 0, 0, 0, 1, 100]);
}

#[test]
fn only_the_latest_allocation_is_temporary() {
    let parsed = parse(&format!("{TABLES}+ 0\n- 0\n- 0\n+ 0\n+ 1\n- 0\n"), read);
    assert_eq!(parsed.set.stacks[0].figures[2], 1);
    assert_eq!(parsed.notes.len(), 1, "a deallocation without allocation");
}

#[test]
fn a_function_may_have_no_location() {
    let text = format!("{TABLES}s 6 _start\ni 4000 1 6\nt 4 0\na 8 4\n+ 2\n");
    let set = parse(&text, read).set;
    assert_eq!(describe(&set), ["p`_start = 1"]);
    assert_eq!((&*set.frames[0].file, set.frames[0].line), ("", 0));
}

#[test]
fn strings_of_older_formats_have_no_length() {
    let text = "v 10100 2\ns my lib.so\ns f\ni 10 1 2 0 0\nt 1 0\na 8 1\n+ 0\n";
    assert_eq!(describe(&parse(text, read).set), ["my lib.so`f = 1"]);
}

#[test]
fn invalid_lines_are_errors_with_their_number() {
    for (text, line) in [
        ("v 20000 9\n", 1),
        ("v 10400\n", 1),
        ("v 10400 3\ns 5 abc\n", 2),
        ("v 10400 3\nt 1 0\n", 2),
        ("v 10400 3\ni 1 0\nt 1 5\n", 3),
        ("v 10400 3\na 1 7\n", 2),
        ("v 10400 3\n+ 0\n", 2),
        ("v 10400 3\n+\n", 2),
        ("v 10400 3\n+ ffffffffffffffffff\n", 2),
        ("v 10400 3\nx /bin/p\n", 2),
        ("v 10400 3\n?\n", 2),
        (
            "v 10400 3\ni 1 0\nt 1 0\na ffffffffffffffff 1\n+ 0\n+ 0\n",
            6,
        ),
    ] {
        let mut input = text.as_bytes();
        let fault = read(&mut Lines::new(&mut input, &Budget::default())).unwrap_err();
        assert_eq!(fault.location, Location::Line(line), "{text}");
    }
}
