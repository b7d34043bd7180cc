//! Every command does what it says.

use std::collections::BTreeSet;

use ordercal::Model;
use ordercal_io::SavedModel;

use crate::files::{BUNDLE, csv, npy_labels, npy_matrix};
use crate::harness::Folder;

fn keys(value: &serde_json::Value) -> BTreeSet<&str> {
    value
        .as_object()
        .unwrap()
        .keys()
        .map(String::as_str)
        .collect()
}

#[test]
fn a_network_can_read_the_top_scores_only() {
    let place = Folder::new();
    place.write("b.npz", BUNDLE);
    let fit = |options: &str| {
        let line = format!("fit b.npz#calib --method oi --hidden 5 {options} -o m.safetensors");
        place.run(&line).ok();
        let model = SavedModel::load(&place.path("m.safetensors"))
            .unwrap()
            .model;
        match model {
            Model::Network(network) => network.to_parts(),
            other => panic!("{other:?}"),
        }
    };
    let (default, top) = (fit(""), fit("--top 6"));
    assert_eq!((default.top, default.ends()), (Some(16), (17, 17)));
    assert_eq!((top.top, top.ends()), (Some(6), (7, 7)));
    // With hardly more classes than that, it reads them all.
    let all = fit("--top 26");
    assert_eq!((all.top, all.ends()), (None, (26, 26)));
    assert_eq!(fit("--top 25").params, all.params);
}

#[test]
fn auto_says_what_it_will_take() {
    let place = Folder::new();
    place.write("b.npz", BUNDLE);
    let line = "fit b.npz#calib --effort quick -o m.safetensors --json";
    let estimate = place.run(line).ok().json()["estimate"].clone();
    assert!(estimate["seconds"].as_f64() > Some(0.0), "{estimate}");
    assert!(estimate["bytes"].as_f64() > Some(0.0), "{estimate}");
}

#[test]
fn fit_evaluate_apply_and_inspect_as_in_the_manual() {
    let place = Folder::new();
    place.write("b.npz", BUNDLE);
    let fit = place
        .run("fit b.npz#calib --method oi --hidden 20,20 -o m.safetensors --json")
        .ok()
        .json();
    let promised = [
        "method",
        "order_preserving",
        "n",
        "classes",
        "nll_before",
        "nll_after",
        "seconds",
        "report",
        "model",
    ];
    assert_eq!(keys(&fit), BTreeSet::from(promised));
    assert_eq!(
        (fit["method"].as_str(), fit["classes"].as_u64()),
        (Some("oi"), Some(26))
    );
    assert!(fit["nll_after"].as_f64() < fit["nll_before"].as_f64());

    let line =
        "evaluate b.npz#test --model m.safetensors --bootstrap 50 --metrics ece,nll,accuracy";
    let found = place.run(&format!("{line} --json")).ok().json();
    assert_eq!(keys(&found), BTreeSet::from(["n", "classes", "rows"]));
    let (before, after) = (&found["rows"][0], &found["rows"][1]);
    assert_eq!(
        (before["name"].as_str(), after["name"].as_str()),
        (Some("uncalibrated"), Some("m"))
    );
    assert_eq!(after["changed_predictions"], 0);
    assert_eq!(before["metrics"]["accuracy"], after["metrics"]["accuracy"]);
    assert!(after["metrics"]["ece"].as_f64() < before["metrics"]["ece"].as_f64());
    assert_eq!(after["interval"]["ece"].as_array().unwrap().len(), 2);
    let text = place.run(line).ok().stdout;
    let sentence = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        sentence.contains("too high on average; now it is"),
        "{text}"
    );
    assert!(
        sentence.contains("95% interval") && sentence.contains("no prediction changed"),
        "{text}"
    );
    assert!(
        text.lines()
            .filter(|l| l.starts_with([' ', '─', '═']))
            .all(|l| l.chars().count() <= 80),
        "{text}"
    );

    for out in ["p.npy", "p.csv", "p.parquet"] {
        let line = format!("apply m.safetensors b.npz#test --as probs --dtype f32 -o {out} --json");
        let applied = place.run(&line).ok().json();
        assert_eq!(applied["n"], found["n"]);
    }
    let words = place.run("inspect m.safetensors").ok().stdout;
    assert!(words.contains("method oi for 26 classes"), "{words}");
    assert!(words.contains("no prediction changes"), "{words}");
    assert_eq!(
        place.run("inspect m.safetensors --json").ok().json()["what"],
        "model"
    );
}

#[test]
fn bundles_without_a_split_take_the_fitting_one() {
    let place = Folder::new();
    place.write("b.npz", BUNDLE);
    let whole = place
        .run("fit b.npz --method ts -o a.safetensors --json")
        .ok()
        .json();
    let split = place
        .run("fit b.npz#calib --method ts -o b.safetensors --json")
        .ok()
        .json();
    assert_eq!(whole["nll_after"], split["nll_after"]);
    let whole = place.run("evaluate b.npz --metrics nll --json").ok().json();
    let split = place
        .run("evaluate b.npz#test --metrics nll --json")
        .ok()
        .json();
    assert_eq!(whole, split);
}

#[test]
fn two_files_are_as_good_as_one() {
    let place = Folder::new();
    let rows: [&[f32]; 4] = [&[3.0, 0.0], &[0.0, 2.0], &[1.5, 1.0], &[0.0, 4.0]];
    place.write("x.npy", npy_matrix(&rows));
    place.write("y.npy", npy_labels(&[0, 1, 1, 1]));
    place.write(
        "t.csv",
        "label,logit_0,logit_1\n0,3,0\n1,0,2\n1,1.5,1\n1,0,4\n",
    );
    let pair = place
        .run("evaluate --logits x.npy --labels y.npy --json")
        .ok()
        .json();
    assert_eq!(pair, place.run("evaluate t.csv --json").ok().json());
    let probs = place.run("fit --logits x.npy --labels y.npy --method ts -o m.safetensors");
    probs.ok();
    place
        .run("apply m.safetensors --logits x.npy -o p.csv")
        .ok();
}

#[test]
fn one_row_is_enough_to_evaluate() {
    let place = Folder::new();
    place.write("one.csv", "label,logit_0,logit_1\n1,0.5,2.0\n");
    let found = place.run("evaluate one.csv --json").ok().json();
    assert_eq!(
        (
            found["n"].as_u64(),
            found["rows"][0]["metrics"]["accuracy"].as_f64()
        ),
        (Some(1), Some(1.0))
    );
}

#[test]
fn thresholds_decide_the_exit_code() {
    let place = Folder::new();
    place.write("d.csv", csv(300));
    assert_eq!(place.run("evaluate d.csv --fail-if ece>0.9").code, 0);
    let failed = place.run("evaluate d.csv --fail-if ece>0.001");
    assert_eq!(failed.code, 1);
    assert!(
        failed.stderr.contains("failed: ece>0.001"),
        "{}",
        failed.stderr
    );
    assert_eq!(
        place
            .run("evaluate d.csv --metrics nll --fail-if accuracy<0.99 --json")
            .code,
        1
    );
    // The last model counts, not the scores before it.
    place.run("fit d.csv --method ts -o m.safetensors").ok();
    let line = "evaluate d.csv --model m.safetensors --fail-if ece>0.08";
    assert_eq!(place.run(line).code, 0);
    assert_eq!(place.run("evaluate d.csv --fail-if ece>0.08").code, 1);
}

#[test]
fn shards_merge_to_the_whole() {
    let place = Folder::new();
    let text = csv(200);
    let lines: Vec<&str> = text.lines().collect();
    let part = |rows: &[&str]| format!("{}\n{}\n", lines[0], rows.join("\n"));
    place
        .write("a.csv", part(&lines[1..80]))
        .write("b.csv", part(&lines[80..]))
        .write("all.csv", &text);
    place.run("evaluate a.csv --state-out a.state").ok();
    place.run("evaluate b.csv --state-out b.state").ok();
    let merged = place.run("merge a.state b.state --json").ok().json();
    let whole = place.run("evaluate all.csv --json").ok().json();
    assert_eq!(merged["n"], whole["n"]);
    for key in ["accuracy", "nll", "ece", "brier"] {
        let values = [&merged, &whole].map(|v| v["rows"][0]["metrics"][key].as_f64().unwrap());
        assert!((values[0] - values[1]).abs() < 1e-9, "{key}: {values:?}");
    }
    assert!(
        place
            .run("merge a.state b.state")
            .ok()
            .stdout
            .contains("exact")
    );
}

#[test]
fn the_same_command_gives_the_same_bytes() {
    let place = Folder::new();
    place.write("d.csv", csv(120));
    for name in ["a", "b"] {
        place
            .run(&format!(
                "fit d.csv --method op --hidden 5 --seed 7 -o {name}.safetensors"
            ))
            .ok();
        place
            .run(&format!("apply {name}.safetensors d.csv -o {name}.npy"))
            .ok();
    }
    let read = |name: &str| std::fs::read(place.path(name)).unwrap();
    assert_eq!(read("a.safetensors"), read("b.safetensors"));
    assert_eq!(read("a.npy"), read("b.npy"));
    place
        .run("fit d.csv --method op --hidden 5 --seed 8 -o c.safetensors")
        .ok();
    assert_ne!(read("a.safetensors"), read("c.safetensors"));
}

#[test]
fn configuration_files_and_flags_go_together() {
    let place = Folder::new();
    place.write("d.csv", csv(120));
    place.write("c.toml", "method = \"diag\"\nhidden = [4]\nlambda = 0.25\n");
    let fit = place
        .run("fit d.csv --config c.toml -o m.safetensors --json")
        .ok()
        .json();
    assert_eq!(fit["method"], "diag");
    let fit = place
        .run("fit d.csv --method vs --keep-order -o m.safetensors --json")
        .ok()
        .json();
    assert_eq!(
        (fit["method"].as_str(), fit["order_preserving"].as_bool()),
        (Some("vs+order"), Some(true))
    );
}

#[test]
fn quiet_is_quiet_and_json_is_one_object() {
    let place = Folder::new();
    place.write("d.csv", csv(60));
    let quiet = place
        .run("fit d.csv --method ts -o m.safetensors --quiet")
        .ok();
    assert_eq!((quiet.stdout.as_str(), quiet.stderr.as_str()), ("", ""));
    let json = place
        .run("fit d.csv --method ts -o m.safetensors --json")
        .ok();
    assert_eq!((json.stdout.lines().count(), json.stderr.as_str()), (1, ""));
}

#[test]
fn data_is_described_with_warnings() {
    let place = Folder::new();
    place.write("b.npz", BUNDLE);
    let words = place.run("inspect b.npz").ok().stdout;
    assert!(
        words.contains("calib:") && words.contains("test:"),
        "{words}"
    );
    place.write("p.csv", "logit_0,logit_1\n0.25,0.75\n0.5,0.5\n");
    let words = place.run("inspect p.csv").ok().stdout;
    assert!(
        words.contains("look like probabilities") && words.contains("no labels"),
        "{words}"
    );
}

#[test]
fn help_version_and_completions() {
    let place = Folder::new();
    for command in [
        "demo",
        "fit",
        "apply",
        "evaluate",
        "merge",
        "inspect",
        "metrics",
        "compare",
        "curve",
        "plot",
        "plot reliability",
        "plot weighted",
        "plot transform",
        "plot simplex",
        "completions",
    ] {
        let help = place.run(&format!("{command} --help")).ok().stdout;
        assert!(help.contains("Example"), "{command}: {help}");
    }
    assert!(place.run("--version").ok().stdout.starts_with("ordercal "));
    for shell in ["bash", "zsh", "fish"] {
        assert!(
            place
                .run(&format!("completions {shell}"))
                .ok()
                .stdout
                .contains("ordercal")
        );
    }
}

#[test]
fn the_demo_calibrates_and_leaves_everything_in_its_folder() {
    let place = Folder::new();
    let run = place.run("demo --out out").ok();
    let too_wide: Vec<&str> = run
        .stdout
        .lines()
        .filter(|line| line.chars().count() > 80)
        .collect();
    assert!(too_wide.is_empty(), "{too_wide:?}");
    assert!(
        run.stdout.contains("no prediction changed"),
        "{}",
        run.stdout
    );
    assert!(run.stdout.contains("5. "), "{}", run.stdout);
    let text = std::fs::read_to_string(place.path("out/results.json")).unwrap();
    let results: serde_json::Value = serde_json::from_str(&text).unwrap();
    for data in results["datasets"].as_array().unwrap() {
        let rows = data["rows"].as_array().unwrap();
        let value = |row: &serde_json::Value, key: &str| row["metrics"][key].as_f64().unwrap();
        assert!(rows.len() > 4);
        for row in &rows[1..] {
            assert_eq!(row["changed_predictions"], 0, "{row}");
            assert_eq!(value(row, "accuracy"), value(&rows[0], "accuracy"));
            assert!(value(row, "nll") < value(&rows[0], "nll"), "{row}");
            assert!(value(row, "ece") < value(&rows[0], "ece"), "{row}");
            let model = format!(
                "out/{}-{}.safetensors",
                data["name"].as_str().unwrap(),
                row["name"].as_str().unwrap()
            );
            place.run(&format!("inspect {model}")).ok();
        }
    }
}

#[test]
fn auto_is_the_default_and_says_what_it_is_made_of() {
    let place = Folder::new();
    place.write("d.csv", csv(400));
    let line = "fit d.csv -o m.safetensors";
    let words = place.run(line).ok().stdout;
    assert!(words.contains("auto on 400 rows"), "{words}");
    assert!(words.contains("on held-out rows"), "{words}");
    let found = place.run(&format!("{line} --folds 3 --json")).ok().json();
    assert_eq!(
        (
            found["method"].as_str(),
            found["order_preserving"].as_bool()
        ),
        (Some("auto"), Some(true))
    );
    assert!(
        found["report"]["notes"]
            .as_array()
            .is_some_and(|n| !n.is_empty())
    );
    let shown = place.run("inspect m.safetensors --json").ok().json();
    assert_eq!(shown["method"]["folds"], 3);
    let words = place.run("inspect m.safetensors").ok().stdout;
    assert!(words.contains("on held-out rows"), "{words}");
    place.run("apply m.safetensors d.csv -o p.npy").ok();
}

#[test]
fn a_search_chooses_and_folds_are_averaged() {
    let place = Folder::new();
    place.write("d.csv", csv(150));
    let line = "fit d.csv --method dir-odir --search quick --folds 3 -o m.safetensors";
    let found = place.run(&format!("{line} --json")).ok().json();
    let ranking = found["ranking"].as_array().unwrap();
    assert!(ranking.len() >= 2 && ranking[0]["nll"].as_f64() <= ranking[1]["nll"].as_f64());
    let shown = place.run("inspect m.safetensors --json").ok().json();
    assert_eq!(shown["method"], ranking[0]["method"]);
    let words = place.run(line).ok().stdout;
    assert!(
        words.contains("chosen: lambda ") && words.contains("next best: "),
        "{words}"
    );
    assert!(!words.contains("max_iterations"), "not searched: {words}");

    place.run("fit d.csv --method ts -o one.safetensors").ok();
    place
        .run("fit d.csv --method ts --folds 4 --stratified -o four.safetensors")
        .ok();
    let read = |name: &str| std::fs::read(place.path(name)).unwrap();
    assert_ne!(read("one.safetensors"), read("four.safetensors"));
    let refused = place.run("fit d.csv --method ts --folds 151 -o x.safetensors");
    assert_eq!(refused.code, 2);
    assert!(refused.stderr.contains("folds = 151"), "{}", refused.stderr);
}

#[test]
fn every_metric_is_explained() {
    let place = Folder::new();
    let all = place.run("metrics").ok().stdout;
    let json = place.run("metrics --json").ok().json();
    let explained = json["metrics"].as_array().unwrap();
    assert!(explained.len() > 20, "{}", explained.len());
    for metric in explained {
        let key = metric["key"].as_str().unwrap();
        assert!(
            all.lines()
                .any(|line| line.starts_with(&format!("{key} ("))),
            "{key}"
        );
        for part in ["asks", "formula", "range", "caveat", "equals"] {
            assert!(!metric[part].as_str().unwrap().is_empty(), "{key}: {part}");
        }
    }
    assert!(all.lines().all(|line| line.chars().count() <= 80));
    let one = place.run("metrics cox_slope").ok().stdout;
    assert!(
        one.contains("the best is 1") && !one.contains("auroc"),
        "{one}"
    );
    let refused = place.run("metrics aurok");
    assert_eq!(refused.code, 2);
    assert!(
        refused.stderr.contains("did you mean `auroc`?"),
        "{}",
        refused.stderr
    );
}

#[test]
fn a_metric_for_two_classes_is_left_out_or_refused_for_more() {
    let place = Folder::new();
    place.write(
        "three.csv",
        "label,logit_0,logit_1,logit_2\n0,2,1,0\n1,0,1,2\n2,0,1,2\n",
    );
    place.write(
        "two.csv",
        "label,logit_0,logit_1\n0,2,1\n1,0,1\n0,0,1\n1,3,1\n",
    );
    let all = place.run("evaluate three.csv").ok().stdout;
    assert!(
        all.contains("brier_sum") && !all.contains("ece_positive"),
        "{all}"
    );
    let all = place.run("evaluate two.csv").ok().stdout;
    assert!(all.contains("ece_positive"), "{all}");
    for option in ["--metrics ece_positive", "--fail-if ece_positive>0.1"] {
        let refused = place.run(&format!("evaluate three.csv {option}"));
        assert_eq!(refused.code, 2);
        assert!(
            refused.stderr.contains("two classes and there are 3"),
            "{}",
            refused.stderr
        );
    }
}
