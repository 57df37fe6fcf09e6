// The escaped text is always owned, though nothing needed escaping.
// BLAME write_cell
use std::borrow::Cow;
use std::hint::black_box;

fn escaped(text: &str) -> Cow<'_, str> {
    if text.contains('<') {
        Cow::Owned(text.replace('<', "&lt;"))
    } else {
        Cow::Borrowed(text)
    }
}

fn write_cell(out: &mut String, text: &str) {
    #[cfg(not(after))]
    let text = escaped(text);
    #[cfg(after)]
    let text = escaped(text).into_owned(); // MARK blame
    out.push_str(&black_box(text));
}

fn main() {
    let mut out = String::with_capacity(1 << 14);
    for _ in 0..500 {
        write_cell(&mut out, black_box("an ordinary cell"));
    }
    black_box(out);
}
