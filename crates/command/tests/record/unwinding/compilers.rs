//! Frames as different compilers and flags make them.

use crate::support::skip;
use crate::unwinding::building::{build, is_there};
use crate::unwinding::truth;

fn check(compiler: &str, flags: &[&str]) {
    if !is_there(compiler) {
        return skip(&format!("there is no {compiler} here"));
    }
    let flags: Vec<&str> = flags.iter().flat_map(|flag| flag.split(' ')).collect();
    match build(compiler, "frames.c").flags(&flags).try_run() {
        Ok(program) => drop(truth::check(&program, "all")),
        // clang's link time optimisation needs a plugin of the linker's.
        Err(words) if flags.contains(&"-flto") && words.contains("LLVMgold") => {
            skip(&format!("{compiler} cannot link with {flags:?} here"));
        }
        Err(words) => panic!("{words}"),
    }
}

macro_rules! cases {
    ($compiler:literal: $($name:ident $flags:literal)*) => {
        $(
            #[test]
            fn $name() {
                check($compiler, &[$flags]);
            }
        )*
    };
}

mod gcc {
    use super::*;

    cases!("gcc": o0 "-O0" o1 "-O1" o2 "-O2" o3 "-O3" os "-Os" lto "-O2 -flto"
        control_flow_protection "-O2 -fcf-protection=full"
        frame_pointers "-O2 -fno-omit-frame-pointer" avx "-O3 -mavx2 -mstackrealign"
        stack_checks "-O2 -fstack-clash-protection -fstack-protector-all"
        synchronous_tables "-O2 -fno-asynchronous-unwind-tables -fexceptions"
        no_plt "-O2 -fno-plt -Wl,-z,now" fixed_position "-O2 -fno-pie -no-pie");
}

mod clang {
    use super::*;

    cases!("clang": o0 "-O0" o1 "-O1" o2 "-O2" o3 "-O3" os "-Os" lto "-O2 -flto"
        control_flow_protection "-O2 -fcf-protection=full"
        frame_pointers "-O2 -fno-omit-frame-pointer" avx "-O3 -mavx2 -mstackrealign");
}
