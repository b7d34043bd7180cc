//! Whatever is wrong with the input: exit code 2, one sentence that names the culprit, nothing left behind.

use crate::files::{BUNDLE, csv, npy_labels, npy_matrix, npy_raw};
use crate::harness::{Finished, Folder};

/// Files to write, the command, and what the message must name.
struct BadInput {
    files: Vec<(&'static str, Vec<u8>)>,
    command: &'static str,
    names: &'static [&'static str],
}

fn case(
    files: Vec<(&'static str, Vec<u8>)>,
    command: &'static str,
    names: &'static [&'static str],
) -> BadInput {
    BadInput {
        files,
        command,
        names,
    }
}

/// A single file that `fit` is given.
fn fit(
    name: &'static str,
    bytes: impl AsRef<[u8]>,
    command: &'static str,
    names: &'static [&'static str],
) -> BadInput {
    case(vec![(name, bytes.as_ref().to_vec())], command, names)
}

#[track_caller]
fn assert_refused(run: &Finished, what: &str, names: &[&str]) {
    assert_eq!(run.code, 2, "{what}: {}{}", run.stdout, run.stderr);
    match what.contains("--json") {
        true => assert_eq!(run.stderr, format!("error: {}\n", run.error()), "{what}"),
        false => assert_eq!(run.stdout, "", "{what}"),
    }
    assert!(run.stderr.starts_with("error: "), "{what}: {}", run.stderr);
    assert_eq!(
        run.stderr.trim_end().lines().count(),
        1,
        "{what}: {}",
        run.stderr
    );
    for name in names {
        assert!(
            run.stderr.contains(name),
            "{what}: no `{name}` in {}",
            run.stderr
        );
    }
}

fn check(cases: Vec<BadInput>) {
    for case in cases {
        let place = Folder::new();
        for (name, bytes) in &case.files {
            place.write(name, bytes);
        }
        let before = place.names();
        let run = place.run(case.command);
        assert_refused(&run, case.command, case.names);
        assert_eq!(
            place.names(),
            before,
            "{}: something was left",
            case.command
        );
    }
}

#[test]
fn files_that_are_no_scores() {
    let good = npy_matrix(&[&[1.0, 2.0], &[3.0, 4.0]]);
    let fit_x = "fit x.npy -o m.safetensors";
    let fit_pair = "fit --logits x.npy --labels y.npy -o m.safetensors";
    let y = || ("y.npy", npy_labels(&[0, 1]));
    let cases = vec![
        fit("x.npy", "", fit_x, &["x.npy", "empty"]),
        fit(
            "x.npz",
            "",
            "fit x.npz -o m.safetensors",
            &["x.npz", "empty"],
        ),
        fit(
            "x.csv",
            "",
            "fit x.csv -o m.safetensors",
            &["x.csv", "empty"],
        ),
        fit(
            "x.pkl",
            "",
            "fit x.pkl -o m.safetensors",
            &["x.pkl", "empty"],
        ),
        fit(
            "x.parquet",
            "",
            "fit x.parquet -o m.safetensors",
            &["x.parquet", "empty"],
        ),
        fit(
            "x.arrow",
            "",
            "fit x.arrow -o m.safetensors",
            &["x.arrow", "empty"],
        ),
        fit(
            "x.safetensors",
            "",
            "fit x.safetensors -o m.safetensors",
            &["x.safetensors"],
        ),
        fit("x.npy", "not numpy at all", fit_x, &["x.npy"]),
        fit(
            "x.npz",
            "not a zip at all",
            "fit x.npz -o m.safetensors",
            &["x.npz"],
        ),
        fit(
            "x.parquet",
            "not parquet at all",
            "fit x.parquet -o m.safetensors",
            &["x.parquet"],
        ),
        fit(
            "x.arrow",
            "not arrow at all",
            "fit x.arrow -o m.safetensors",
            &["x.arrow"],
        ),
        fit(
            "x.pkl",
            "not a pickle at all",
            "fit x.pkl -o m.safetensors",
            &["x.pkl"],
        ),
        fit(
            "x.csv.gz",
            "not gzip at all",
            "fit x.csv.gz -o m.safetensors",
            &["x.csv.gz"],
        ),
        fit(
            "x.safetensors",
            "not tensors",
            "fit x.safetensors -o m.safetensors",
            &["x.safetensors"],
        ),
        fit(
            "x.npz",
            &BUNDLE[..5000],
            "fit x.npz -o m.safetensors",
            &["x.npz"],
        ),
        case(
            vec![("x.npy", good[..good.len() - 3].to_vec()), y()],
            fit_pair,
            &["x.npy", "cut short"],
        ),
        case(
            vec![("x.npy", npy_raw("<f4", "(2, 2, 2)", &[0; 32])), y()],
            fit_pair,
            &["x.npy", "shape"],
        ),
        case(
            vec![("x.npy", npy_raw("|O", "(2, 2)", &[0; 16])), y()],
            fit_pair,
            &["x.npy", "object"],
        ),
        case(
            vec![("x.npy", npy_raw("<U2", "(2, 2)", &[0; 32])), y()],
            fit_pair,
            &["x.npy"],
        ),
        case(
            vec![("x.npy", good.clone()), ("y.npy", npy_labels(&[0]))],
            fit_pair,
            &["y.npy", "rows"],
        ),
        case(
            vec![("x.npy", good.clone()), ("y.npy", npy_labels(&[0, 2]))],
            fit_pair,
            &["y.npy", "row 1", "label 2"],
        ),
        case(
            vec![("x.npy", good.clone()), ("y.npy", npy_labels(&[0, -1]))],
            fit_pair,
            &["row 1", "-1"],
        ),
        case(
            vec![("x.npy", good.clone())],
            fit_pair,
            &["y.npy", "no such file"],
        ),
        case(vec![("x.npy", good.clone())], fit_x, &["x.npy", "labels"]),
        case(
            vec![("x.npy", npy_matrix(&[&[1.0, f32::NAN], &[0.0, 1.0]])), y()],
            fit_pair,
            &["x.npy", "row 0, column 1", "NaN"],
        ),
        case(
            vec![
                ("x.npy", npy_matrix(&[&[1.0, 0.0], &[f32::INFINITY, 1.0]])),
                y(),
            ],
            fit_pair,
            &["x.npy", "row 1, column 0"],
        ),
        case(
            vec![("x.npy", npy_labels(&[1, 0])), y()],
            fit_pair,
            &["x.npy", "two classes in one column"],
        ),
        case(
            vec![
                ("x.npy", npy_raw("<f4", "(0, 3)", &[])),
                ("y.npy", npy_labels(&[])),
            ],
            fit_pair,
            &["x.npy", "no rows"],
        ),
    ];
    check(cases);
}

#[test]
fn tables_with_a_wrong_cell() {
    let table = |body: &str| format!("label,logit_0,logit_1\n{body}");
    let line = "evaluate t.csv --state-out s.state";
    let cases = vec![
        fit("t.csv", table(""), line, &["t.csv"]),
        fit("t.csv", table("0,1,x\n"), line, &["t.csv", "line 2", "`x`"]),
        fit("t.csv", table("0,1\n"), line, &["t.csv", "line 2"]),
        fit("t.csv", table("0,1,2,3\n"), line, &["t.csv", "line 2"]),
        fit("t.csv", table("0,1,nan\n"), line, &["t.csv", "NaN"]),
        fit("t.csv", table("0.5,1,2\n"), line, &["t.csv", "row 0"]),
        fit("t.csv", table("7,1,2\n"), line, &["t.csv", "label 7"]),
        fit("t.csv", "logit_0,logit_1\n1,2\n", line, &["t.csv", "label"]),
        fit("t.csv", "label,a,b\n0,1,2\n", line, &["t.csv", "scores"]),
        fit(
            "t.csv",
            "label,logit_0,logit_2\n0,1,2\n",
            line,
            &["t.csv", "logit_1"],
        ),
        fit(
            "t.csv",
            "label,prob_0,prob_1\n0,0.9,0.3\n",
            line,
            &["t.csv", "sum to"],
        ),
        fit(
            "t.csv",
            "label,prob_0,prob_1\n0,1.5,-0.5\n",
            line,
            &["t.csv", "negative"],
        ),
    ];
    check(cases);
}

#[test]
fn paths_that_lead_nowhere() {
    let good = || ("d.csv", csv(60).into_bytes());
    let cases = vec![
        case(
            vec![],
            "fit none.npy -o m.safetensors",
            &["none.npy", "no such file"],
        ),
        case(vec![], "evaluate . --json", &["ending"]),
        case(vec![], "evaluate data", &["data", "ending"]),
        case(
            vec![good()],
            "fit d.csv --method ts -o no/folder/m.safetensors",
            &["no/folder"],
        ),
        case(
            vec![good()],
            "evaluate d.csv --model none.safetensors",
            &["none.safetensors"],
        ),
        case(
            vec![good()],
            "evaluate d.csv --state-out no/s.state",
            &["no/s.state"],
        ),
        case(
            vec![good()],
            "apply none.safetensors d.csv -o p.npy",
            &["none.safetensors"],
        ),
        case(vec![good()], "merge none.state", &["none.state"]),
        case(vec![good()], "merge d.csv", &["d.csv", "ordcalMS"]),
        case(vec![good()], "inspect none.npz", &["none.npz"]),
        case(
            vec![("b.npz", BUNDLE.to_vec())],
            "fit b.npz#clib -o m.safetensors",
            &["b.npz", "clib", "calib"],
        ),
        case(
            vec![("b.npz", BUNDLE.to_vec())],
            "inspect b.npz#nope",
            &["b.npz", "nope"],
        ),
    ];
    check(cases);
    let place = Folder::new();
    std::fs::create_dir(place.path("folder.npy")).unwrap();
    let run = place.run("evaluate folder.npy");
    assert_refused(&run, "a folder", &["folder.npy", "folder"]);
}

#[test]
fn arguments_that_make_no_sense() {
    let good = || ("d.csv", csv(60).into_bytes());
    let with = |config: &str| vec![good(), ("c.toml", config.as_bytes().to_vec())];
    let fit_c = "fit d.csv --config c.toml -o m.safetensors";
    let cases = vec![
        case(vec![good()], "", &["command"]),
        case(vec![good()], "fitt d.csv", &["fitt", "fit"]),
        case(vec![good()], "fit d.csv", &["--output"]),
        case(vec![good()], "fit -o m.safetensors", &["DATA"]),
        case(
            vec![good()],
            "fit d.csv --labels y.npy -o m.safetensors",
            &["--logits"],
        ),
        case(
            vec![good()],
            "fit d.csv --method nope -o m.safetensors",
            &["nope"],
        ),
        case(
            vec![good()],
            "fit d.csv --method diga -o m.safetensors",
            &["diga", "diag"],
        ),
        case(
            vec![good()],
            "fit d.csv --method ts+order -o m.safetensors",
            &["ts"],
        ),
        case(
            vec![good()],
            "fit d.csv --method ts --hidden 5 -o m.safetensors",
            &["--hidden", "ts"],
        ),
        case(
            vec![good()],
            "fit d.csv --method ts --top 5 -o m.safetensors",
            &["--top", "ts"],
        ),
        case(
            vec![good()],
            "fit d.csv --method oi --top 0 -o m.safetensors",
            &["top", "at least 1"],
        ),
        case(
            vec![good()],
            "fit d.csv --method unconstrained --top 2 -o m.safetensors",
            &["top", "oi and op"],
        ),
        case(
            vec![good()],
            "fit d.csv --method ts --lambda 1 -o m.safetensors",
            &["--lambda", "ts"],
        ),
        case(
            vec![good()],
            "fit d.csv --hidden 5,x -o m.safetensors",
            &["--hidden", "x"],
        ),
        case(
            vec![good()],
            "fit d.csv --method oi --lambda=-1 -o m.safetensors",
            &["lambda", "-1"],
        ),
        case(
            vec![good()],
            "fit d.csv --kind percent -o m.safetensors",
            &["percent"],
        ),
        case(
            vec![good()],
            "fit d.csv --threads 0 -o m.safetensors",
            &["--threads"],
        ),
        case(
            with("method = \"oi\"\nlamda = 1.0\n"),
            fit_c,
            &["c.toml", "lamda", "lambda"],
        ),
        case(with("hidden = [\n"), fit_c, &["c.toml", "line"]),
        case(with("hidden = \"big\"\n"), fit_c, &["c.toml"]),
        case(with("method = 3\n"), fit_c, &["c.toml", "method"]),
        case(
            with("method = \"ts\"\n"),
            "fit d.csv --method oi --config c.toml -o m.safetensors",
            &["c.toml", "oi"],
        ),
        case(
            vec![good()],
            "fit d.csv --config none.toml -o m.safetensors",
            &["none.toml"],
        ),
        case(
            vec![good()],
            "evaluate d.csv --metrics ecce",
            &["ecce", "ece"],
        ),
        case(
            vec![good()],
            "evaluate d.csv --fail-if ece",
            &["--fail-if", "ece"],
        ),
        case(
            vec![good()],
            "evaluate d.csv --fail-if ece>big",
            &["--fail-if", "big"],
        ),
        case(vec![good()], "evaluate d.csv --bins 0", &["bins"]),
        case(vec![good()], "evaluate d.csv --bootstrap 0", &["resamples"]),
        case(vec![good()], "merge", &["STATE"]),
        case(vec![good()], "completions nosh", &["nosh"]),
    ];
    check(cases);
}

#[test]
fn models_that_do_not_fit() {
    let place = Folder::new();
    place
        .write("d.csv", csv(60))
        .write("two.csv", "label,logit_0,logit_1\n0,1,2\n1,0,3\n");
    place.run("fit d.csv --method ts -o m.safetensors").ok();
    let before = place.names();
    for (line, names) in [
        ("apply m.safetensors two.csv -o p.npy", ["two.csv", "3"]),
        ("apply m.safetensors d.csv -o p.txt", ["p.txt", "ending"]),
        ("apply m.safetensors d.csv -o p.pkl", ["p.pkl", "written"]),
        ("apply m.safetensors d.csv -o no/p.npy", ["no/p.npy", ""]),
        ("apply d.csv d.csv -o p.npy", ["d.csv", ""]),
        (
            "evaluate two.csv --model m.safetensors",
            ["m.safetensors", "two.csv"],
        ),
        ("evaluate d.csv --model d.csv", ["d.csv", ""]),
    ] {
        assert_refused(&place.run(line), line, &names);
        assert_eq!(place.names(), before, "{line}");
    }
    // A bad row far down is found when part of the output is written already.
    let mut text = csv(3000);
    text.push_str("0,1.0,nan,2.0\n");
    place.write("late.csv", text);
    let run = place.run("apply m.safetensors late.csv -o p.csv");
    assert_refused(&run, "late", &["late.csv", "row 3000, column 1"]);
    assert!(!place.path("p.csv").exists());
}

#[test]
#[cfg(unix)]
fn folders_that_must_not_be_written() {
    use std::os::unix::fs::PermissionsExt;
    let place = Folder::new();
    place.write("d.csv", csv(60));
    let locked = place.path("locked");
    std::fs::create_dir(&locked).unwrap();
    std::fs::set_permissions(&locked, std::fs::Permissions::from_mode(0o500)).unwrap();
    // Nothing is read-only for root, so there is nothing to see then.
    if std::fs::write(locked.join("probe"), "").is_err() {
        let run = place.run("fit d.csv --method ts -o locked/m.safetensors");
        assert_refused(&run, "locked", &["locked/m.safetensors"]);
    }
    std::fs::set_permissions(&locked, std::fs::Permissions::from_mode(0o700)).unwrap();
}

#[test]
#[cfg(unix)]
fn names_that_are_not_utf8() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    let place = Folder::new();
    let name = OsStr::from_bytes(b"\xff.npy");
    let run = place.run_args([OsStr::new("evaluate"), name]);
    assert_refused(&run, "a missing file", &[".npy", "no such file"]);
}
