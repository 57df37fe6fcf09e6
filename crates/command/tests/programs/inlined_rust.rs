//! Functions inlined into others, a closure, a method of a trait, in Rust.
//! Compiled with -O. Every allocation is of a size of its own.

use std::hint::black_box;

mod deep {
    use std::hint::black_box;

    #[inline(always)]
    pub fn innermost(bytes: usize) -> Vec<u8> {
        black_box(Vec::with_capacity(bytes)) // MARK innermost
    }

    pub struct Thing(pub usize);

    pub trait Work {
        fn work(&self) -> usize;
    }

    impl Work for Thing {
        #[inline(never)]
        fn work(&self) -> usize {
            let mut sum = 0;
            for _ in 0..self.0 {
                sum += innermost(61).capacity(); // MARK work
            }
            black_box(sum)
        }
    }
}

#[inline(never)]
fn kept() {
    std::mem::forget(black_box(vec![7_u8; 67])); // MARK kept
    black_box(());
}

fn main() {
    use deep::Work;
    black_box(deep::Thing(black_box(5)).work());
    kept();
    black_box(());
}
