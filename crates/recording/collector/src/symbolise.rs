//! Symbolisation at the end of a recording: writes the names of all addresses in modules
//! into the trace. It works module by module, so only one module's symbols are in memory
//! at a time. (`jit_symbols` names the addresses outside of modules.)

use std::sync::Mutex;
use std::time::{Duration, Instant};

use allotrope_symbols::symbolize::{FileAddress, SymbolsBuilder, missing_names, sources_of};
use allotrope_symbols::{Locator, ModuleSymbols, Ran, Work};
use allotrope_trace::model::{MissingNames, Record, Symbols};

use crate::launcher::{Launcher, MessageSender};
use crate::modules::KnownModule;
use crate::protocol::{Part, ToLauncher};
use crate::trace_file::TraceFile;

/// How often the progress on a large module is sent.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(100);

/// Writes the names of the modules' addresses to the trace and sends the progress to
/// the launcher. Addresses in a module without symbols get no names.
pub(crate) fn symbolise(
    modules: Vec<KnownModule>,
    locator: &Locator,
    trace: &mut TraceFile,
    launcher: &Launcher,
) {
    let wanted = modules.iter().filter(|it| !it.addresses.is_empty());
    let total = wanted.count() as u32;
    // Progress messages may be lost if the launcher does not read them.
    let send_progress = move |sender: &MessageSender, done, part| {
        sender.send(ToLauncher::Symbolising { done, total, part });
    };
    let mut done = 0;
    for known in modules {
        if known.addresses.is_empty() {
            continue;
        }
        send_progress(&launcher.sender(), done, None);
        let (sender, last) = (launcher.sender(), Mutex::new(Instant::now()));
        let locator = locator.clone().with_progress(move |work, part, parts| {
            // Called once for each unit of debug information.
            let Ok(mut last) = last.lock() else { return };
            if last.elapsed() >= PROGRESS_INTERVAL {
                *last = Instant::now();
                let part = Part {
                    fetching: work == Work::Fetching,
                    done: part,
                    total: parts,
                };
                send_progress(&sender, done, Some(part));
            }
        });
        symbolise_module(known, &locator, trace);
        done += 1;
    }
    send_progress(&launcher.sender(), done, None);
}

fn symbolise_module(known: KnownModule, locator: &Locator, trace: &mut TraceFile) {
    let mut addresses: Vec<FileAddress> = known.addresses.into_iter().collect();
    addresses.sort_unstable();
    let module = known.module;
    let path = &module.path;
    let ran = Ran::new(&module.build_id, module.file);
    let symbols = match ModuleSymbols::load(locator, path, &ran, known.file) {
        Ok(symbols) => symbols,
        // The path of a module that is in no file is not absolute (`linux-vdso.so.1`).
        Err(_) if !path.is_absolute() => return,
        Err(error) => {
            trace.write(&Record::Symbols(Symbols {
                module: module.module,
                missing: missing_names(&error, known.was_seen),
                ..Symbols::default()
            }));
            return;
        }
    };
    let (unoptimised, compilers) = (symbols.unoptimised(), symbols.compilers().to_vec());
    let mut record = SymbolsBuilder::new(module.module, unoptimised, compilers);
    let resolved = symbols.resolve(&addresses);
    if resolved.iter().any(|it| it.frames.is_empty()) {
        record.set_missing(Some(MissingNames::Stripped));
    }
    record.set_sources(sources_of(&symbols));
    for (address, resolved) in addresses.iter().zip(resolved) {
        if record.is_full() {
            trace.write(&Record::Symbols(record.take()));
        }
        record.add(*address, &resolved.frames);
    }
    trace.write(&Record::Symbols(record.take()));
    trace.flush();
}
