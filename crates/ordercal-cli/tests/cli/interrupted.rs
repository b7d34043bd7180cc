//! What is left when a command is stopped half way, or the disk is.
#![cfg(unix)]

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::files::BUNDLE;
use crate::harness::Place;

/// A fit that would take many minutes.
const SLOW: &str = "hidden = [400, 400, 400]\n\
                    optimizer = { kind = \"adam\", epochs = 100000 }\n";

#[test]
fn ctrl_c_during_a_fit_leaves_nothing() {
    let place = Place::new();
    place.write("b.npz", BUNDLE).write("slow.toml", SLOW);
    let before = place.names();
    let mut child = Command::new(env!("CARGO_BIN_EXE_ordercal"))
        .args(["fit", "b.npz#calib", "--method", "op"])
        .args(["--config", "slow.toml", "-o", "m.safetensors"])
        .current_dir(place.path(""))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    // Long enough to be in the middle of the fit.
    std::thread::sleep(Duration::from_millis(1500));
    assert!(child.try_wait().unwrap().is_none(), "the fit was too fast");
    let sent = Command::new("kill")
        .args(["-INT", &child.id().to_string()])
        .status()
        .unwrap();
    assert!(sent.success());
    let limit = Instant::now() + Duration::from_secs(60);
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        if Instant::now() > limit {
            child.kill().unwrap();
            panic!("still running a minute after Ctrl-C");
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    assert_eq!(status.code(), Some(130));
    assert_eq!(place.names(), before);
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
    let place = Place::new();
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
