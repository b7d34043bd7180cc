//! Signals that end the program.

use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result};

/// Whether such a signal came.
static ENDING: AtomicBool = AtomicBool::new(false);

/// Whether the program is about to end because of a signal.
pub fn ending() -> bool {
    ENDING.load(Ordering::SeqCst)
}

/// Ends the program at once, in the middle of any fit; unfinished files are removed first. The exit code is 128 plus
/// the number of the signal, as shells have it.
fn end(signal: i32) -> ! {
    ENDING.store(true, Ordering::SeqCst);
    ordercal_io::discard_pending();
    crate::commands::demo::remove_temporary_folder();
    std::process::exit(128 + signal);
}

/// Starts to listen for Ctrl-C, and for the signals that ask a program to end.
#[cfg(unix)]
pub fn listen() -> Result<()> {
    use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGXFSZ};
    use signal_hook::iterator::Signals;

    // With a handler, a file that may not grow further is an error of its writing, and not the end of the process.
    signal_hook::flag::register(SIGXFSZ, std::sync::Arc::default())
        .context("cannot listen for signals")?;
    let ignored = ignored();
    let wanted = [SIGINT, SIGTERM, SIGHUP];
    let wanted = wanted.iter().filter(|&&s| ignored >> (s - 1) & 1 == 0);
    let mut signals = Signals::new(wanted).context("cannot listen for signals")?;
    std::thread::Builder::new()
        .name("signals".to_owned())
        .spawn(move || {
            if let Some(signal) = signals.forever().next() {
                end(signal);
            }
        })
        .context("cannot listen for signals")?;
    Ok(())
}

/// The signals that whoever started this program, `nohup` for instance, told it to ignore, as bits.
#[cfg(unix)]
fn ignored() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .unwrap_or(0)
}

/// Starts to listen for Ctrl-C.
#[cfg(not(unix))]
pub fn listen() -> Result<()> {
    const SIGINT: i32 = 2;
    ctrlc::set_handler(|| end(SIGINT)).context("cannot listen for Ctrl-C")
}
