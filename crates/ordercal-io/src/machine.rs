//! How much memory the machine has.

use std::fs;

/// Three quarters of the memory of the machine, or of the container that this process runs in, if that is known: how much
/// a buffer may take unless the user says otherwise.
pub fn default_memory_limit() -> Option<usize> {
    let meminfo = fs::read_to_string("/proc/meminfo").ok();
    let total = meminfo.as_deref().and_then(total_memory);
    // Version 2 of control groups, then version 1; `max` and absurdly large numbers stand for no limit.
    let files = [
        "/sys/fs/cgroup/memory.max",
        "/sys/fs/cgroup/memory/memory.limit_in_bytes",
    ];
    let groups = files
        .into_iter()
        .filter_map(|file| fs::read_to_string(file).ok());
    let groups = groups.filter_map(|text| text.trim().parse().ok());
    let least = groups.chain(total).min()?;
    Some(least / 4 * 3)
}

/// The total in the text of `/proc/meminfo`, in bytes.
fn total_memory(text: &str) -> Option<usize> {
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("MemTotal:"))?;
    let number = line.trim().strip_suffix("kB")?;
    number.trim().parse::<usize>().ok()?.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_total_is_read() {
        let text = "MemTotal:       16316412 kB\nMemFree:          123 kB\n";
        assert_eq!(total_memory(text), Some(16_316_412 * 1024));
        assert_eq!(total_memory("MemFree: 1 kB"), None);
        if cfg!(target_os = "linux") {
            assert!(default_memory_limit() > Some(1 << 20));
        }
    }
}
