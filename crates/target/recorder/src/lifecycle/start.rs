//! Starts the recording of this process: finds the arena that the environment names and
//! claims an image slot in it. If the environment asks for watching, that begins instead.

use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use allotrope_preflight::NotRecordable;
use allotrope_sampling::Period;
use allotrope_shm::location::Request;
use allotrope_shm::numbers::LossReason;
use allotrope_shm::wire::origin;

use crate::capture::loader_tables;
use crate::capture::unseen;
use crate::emit::diagnostics;
use crate::emit::mode;
use crate::emit::thread_names;
use crate::lifecycle::early;
use crate::lifecycle::new_image;
use crate::lifecycle::watch;
use crate::state::arena;
use crate::state::image::{self, Asked};
use crate::state::process;
use crate::sys::next::{self, Function};
use crate::sys::system::{self, SignalsBlocked};

/// The value itself is not printed: it may be long, and control a terminal.
const MALFORMED: &[u8] = b"allotrope: this process cannot be watched: ALLOTROPE_WATCH is not `standby`, `off` or a size from 1 to 1TiB, such as 512KiB\n";

/// Starts recording, or watching, if the environment asks for it. `false`: neither is
/// wanted or possible, or not yet.
#[cold]
pub fn start() -> bool {
    if process::STATE.load(Relaxed) == process::OFF {
        return false;
    }
    if process::STATE
        .compare_exchange(process::UNTOUCHED, process::STARTING, Acquire, Relaxed)
        .is_err()
    {
        return process::is_recording();
    }
    if system::has_gained_rights() {
        // Before anything of the caller's is read. The loader ignores LD_PRELOAD here, but
        // not /etc/ld.so.preload.
        process::turn_off();
        return false;
    }
    if next::is_second() {
        // Or each call would be there twice: `/etc/ld.so.preload` may name a recorder, and
        // `allotrope record` preloads another one.
        process::turn_off();
        return false;
    }
    let _blocked = SignalsBlocked::new();
    let Some(request) = image::request() else {
        // Not even the environment can be known yet.
        process::STATE.store(process::UNTOUCHED, Relaxed);
        return false;
    };
    let is_mapped = match request {
        Asked::For(Request::Record(location)) => arena::map(&location, image::was_preloaded()),
        Asked::For(Request::Watch(period)) => return begin_watching(Period::new(period), false),
        Asked::For(Request::Standby) => return begin_watching(Some(Period::SPARSE), true),
        Asked::Malformed => {
            system::say(MALFORMED);
            false
        }
        Asked::Nothing => false,
    };
    if !is_mapped || !process::map_fork_state() {
        process::turn_off();
        return false;
    }
    if next::address(Function::GlibcVersion) == 0 {
        // Nothing here was ever tried with another C library.
        image::remember_self();
        diagnostics::post(
            system::process_id(),
            NotRecordable::OtherLibc,
            image::executable(),
        );
        process::turn_off();
        return false;
    }
    if process::control().stopped.load(Relaxed) != 0 {
        process::turn_off();
        return false;
    }
    if !mode::choose(process::control()) {
        process::turn_off();
        return false;
    }
    image::remember_self();
    thread_names::begin();
    if !new_image::begin(origin::EXEC, 0) {
        process::turn_off();
        return false;
    }
    process::slot().lost[LossReason::TooEarly as usize].fetch_add(early::overflowed(), Relaxed);
    process::STATE.store(process::RECORDING, Release);
    loader_tables::begin();
    unseen::diagnose();
    true
}

/// Starts watching; see [`watch::begin`].
fn begin_watching(period: Option<Period>, is_standby: bool) -> bool {
    let has_begun = watch::begin(period, is_standby);
    match has_begun {
        true => process::STATE.store(process::RECORDING, Release),
        false => process::turn_off(),
    }
    has_begun
}
