//! Files that are wrong whatever their format.

use super::*;
#[test]
fn missing_file() {
    let error = load(&DataRef::new("no/such/file.npy"), None).unwrap_err();
    assert!(matches!(error, Error::NotFound { .. }));
    check_message(&error, "no/such/file.npy".as_ref());
}

#[test]
fn folder_with_a_files_name() {
    let dir = tempfile::tempdir().unwrap();
    for ending in ENDINGS {
        let path = dir.path().join(format!("a.{ending}"));
        std::fs::create_dir(&path).unwrap();
        let error = load(&DataRef::new(&path), None).unwrap_err();
        assert!(matches!(error, Error::IsDirectory { .. }), "{error:?}");
        check_message(&error, &path);
    }
}

#[test]
fn empty_file_of_every_format() {
    for ending in ENDINGS {
        let error = refused(&format!("a.{ending}"), b"");
        assert!(matches!(error, Error::Empty { .. }), "{ending}: {error:?}");
    }
}

#[test]
#[cfg(unix)]
fn unreadable_file() {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.npy");
    std::fs::write(&path, b"x").unwrap();
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o000)).unwrap();
    // The superuser can read everything, and then sees that it is no npy file.
    let error = load(&DataRef::new(&path), None).unwrap_err();
    let permitted = std::fs::read(&path).is_ok();
    match &error {
        Error::Io { action: "read", .. } => assert!(!permitted),
        other => assert!(permitted, "{other:?}"),
    }
    check_message(&error, &path);
}

#[test]
#[cfg(target_os = "linux")]
fn path_that_is_not_utf8() {
    use std::os::unix::ffi::OsStrExt;
    let dir = tempfile::tempdir().unwrap();
    let path = dir
        .path()
        .join(std::ffi::OsStr::from_bytes(b"\xff\xfe.npy"));
    std::fs::write(&path, b"nonsense").unwrap();
    let error = load(&DataRef::parse(&path), None).unwrap_err();
    assert!(matches!(error, Error::WrongMagic { .. }), "{error:?}");
    std::fs::copy(fixture("fine_f4.npy"), &path).unwrap();
    assert_eq!(load(&DataRef::parse(&path), None).unwrap().rows(), 23);
}

refuses!(unknown_ending, "a.xlsx", b"x", Error::UnknownFormat { .. });
