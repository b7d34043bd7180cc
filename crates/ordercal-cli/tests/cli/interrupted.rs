//! Interrupted commands and full disks leave nothing behind.
#![cfg(unix)]

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::files::{BUNDLE, npy_labels, npy_raw};
use crate::harness::Folder;

const PROGRAM: &str = env!("CARGO_BIN_EXE_ordercal");

/// A fit that would take many minutes.
const SLOW: &str = "hidden = [400, 400, 400]\n\
                    optimizer = { kind = \"adam\", epochs = 100000 }\n";

/// Starts a program whose signals have their default effects.
///
/// In the background or under `nohup`, this process ignores some of them, and its children inherit that. They do not
/// inherit a handler.
fn start(program: &mut Command) -> Child {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = mask.map_or(0, |mask| u64::from_str_radix(mask.trim(), 16).unwrap());
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        if ignored >> (signal - 1) & 1 == 1 {
            signal_hook::flag::register(signal, Arc::default()).unwrap();
        }
    }
    let program = program.stdout(Stdio::null()).stderr(Stdio::null());
    program.spawn().unwrap()
}

/// A fit that is still running after a moment.
fn start_fit(program: &mut Command, place: &Folder) -> Child {
    let arguments = "fit b.npz#calib --method op --config slow.toml -o m.safetensors";
    place.write("b.npz", BUNDLE).write("slow.toml", SLOW);
    let fit = program.args(arguments.split(' '));
    let child = start(fit.current_dir(place.path("")));
    // Long enough to be in the middle of the fit.
    std::thread::sleep(Duration::from_millis(1500));
    child
}

/// Sends a signal with the shell's own `kill`; not every machine has the program.
fn send(child: &mut Child, name: &str) {
    assert!(child.try_wait().unwrap().is_none(), "it ended too early");
    let kill = format!("kill {name} {}", child.id());
    let sent = Command::new("sh").args(["-c", &kill]).status().unwrap();
    assert!(sent.success());
}

/// Sends a signal and waits for the end, which must come at once with this exit code.
fn end(mut child: Child, name: &str, code: i32) {
    send(&mut child, name);
    let limit = Instant::now() + Duration::from_secs(60);
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        if Instant::now() > limit {
            child.kill().unwrap();
            panic!("still running a minute after {name}");
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    assert_eq!(status.code(), Some(code), "{name}");
}

#[test]
fn signals_during_a_fit_leave_nothing() {
    for (name, code) in [("-INT", 130), ("-TERM", 143), ("-HUP", 129)] {
        let place = Folder::new();
        end(start_fit(&mut Command::new(PROGRAM), &place), name, code);
        assert_eq!(place.names(), ["b.npz", "slow.toml"]);
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_signal_that_was_ignored_at_the_start_stays_ignored() {
    let place = Folder::new();
    let mut shell = Command::new("sh");
    shell.args(["-c", "trap '' INT HUP; exec \"$0\" \"$@\"", PROGRAM]);
    let mut child = start_fit(&mut shell, &place);
    for name in ["-INT", "-HUP"] {
        send(&mut child, name);
        std::thread::sleep(Duration::from_millis(300));
    }
    end(child, "-TERM", 143);
}

#[test]
fn ctrl_c_during_the_demo_removes_its_temporary_folder() {
    let place = Folder::new();
    let child = start(
        Command::new(PROGRAM)
            .arg("demo")
            .env("TMPDIR", place.path("")),
    );
    let limit = Instant::now() + Duration::from_secs(60);
    while place.names().is_empty() && Instant::now() < limit {
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(!place.names().is_empty(), "there is no temporary folder");
    end(child, "-INT", 130);
    assert!(place.names().is_empty(), "{:?}", place.names());
}

/// A numpy file of `rows` × 50 logits.
fn many_logits(rows: usize) -> Vec<u8> {
    let scores = (0..rows * 50).map(|i| (i * 7919 % 1009) as f32 / 100.0);
    let bytes: Vec<u8> = scores.flat_map(f32::to_le_bytes).collect();
    npy_raw("<f4", &format!("({rows}, 50)"), &bytes)
}

#[test]
fn a_kill_leaves_the_old_file_or_the_new_one() {
    let place = Folder::new();
    place.write("small.npy", many_logits(40));
    place.write("labels.npy", npy_labels(&(0..40).collect::<Vec<i64>>()));
    place
        .run("fit --logits small.npy --labels labels.npy --method ts -o m.safetensors")
        .ok();
    place.write("big.npy", many_logits(40_000));
    let apply = "apply m.safetensors big.npy -o p.npy";
    let start = Instant::now();
    place.run(apply).ok();
    let whole = start.elapsed();
    let new = std::fs::read(place.path("p.npy")).unwrap();
    let before = place.names();
    let mut killed = 0;
    for moment in 1..=8 {
        place.write("p.npy", "old");
        let mut child = place.start(apply);
        std::thread::sleep(whole * moment / 9);
        killed += u32::from(child.try_wait().unwrap().is_none());
        child.kill().unwrap();
        child.wait().unwrap();
        let now = std::fs::read(place.path("p.npy")).unwrap();
        assert!(now == b"old" || now == new, "{} bytes", now.len());
    }
    assert!(killed > 0, "every run ended before it was killed");
    // What was left is removed by the next run, once it is old enough to be nobody's.
    let old = std::time::SystemTime::now() - Duration::from_secs(60);
    for name in place.names() {
        if !before.contains(&name) {
            assert!(
                name.starts_with(".p.npy.") && name.ends_with(".tmp"),
                "{name}"
            );
            let left = std::fs::File::options().write(true).open(place.path(&name));
            left.unwrap().set_modified(old).unwrap();
        }
    }
    place.run(apply).ok();
    assert_eq!(place.names(), before);
    assert!(std::fs::read(place.path("p.npy")).unwrap() == new);
}

/// A file system of a few pages, if this machine lets us make one.
struct TinyDisk<'a>(&'a Path);

impl<'a> TinyDisk<'a> {
    fn mount(at: &'a Path) -> Option<Self> {
        std::fs::create_dir(at).unwrap();
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", "size=64k", "tmpfs"])
            .arg(at)
            .stderr(Stdio::null())
            .status();
        mounted.is_ok_and(|s| s.success()).then_some(Self(at))
    }
}

impl Drop for TinyDisk<'_> {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.0).status();
    }
}

#[test]
fn a_full_disk_is_one_sentence_and_leaves_nothing() {
    let place = Folder::new();
    place.write("b.npz", BUNDLE);
    place
        .run("fit b.npz#calib --method ts -o m.safetensors")
        .ok();
    let at = place.path("tiny");
    let Some(_disk) = TinyDisk::mount(&at) else {
        // Only root may mount; the promise is the same code as for a read-only folder, tested elsewhere.
        return;
    };
    for out in [
        "p.npy",
        "p.npz",
        "p.csv",
        "p.csv.gz",
        "p.parquet",
        "p.arrow",
        "p.safetensors",
    ] {
        let run = place.run(&format!("apply m.safetensors b.npz#test -o tiny/{out}"));
        assert_eq!(run.code, 2, "{out}: {}", run.stderr);
        assert_eq!(run.stderr.lines().count(), 1, "{}", run.stderr);
        assert!(run.stderr.contains(out), "{}", run.stderr);
        assert_eq!(std::fs::read_dir(&at).unwrap().count(), 0, "{out}");
    }
}
