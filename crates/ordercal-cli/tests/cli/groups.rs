//! Models of groups, and calibration over time.

use std::fmt::Write as _;

use crate::harness::Folder;

/// Rows of two groups whose scores are too large by different factors, over ten days.
fn table(rows: usize, late: f64) -> String {
    let mut text = String::from("label,logit_0,logit_1,country,day\n");
    let mut state = 12345_u64;
    let mut uniform = || {
        state = state
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        (state >> 11) as f64 / (1_u64 << 53) as f64
    };
    for row in 0..rows {
        let (country, factor) = if row % 2 == 0 {
            ("DE", 1.0)
        } else {
            ("FR", 4.0)
        };
        let day = row * 10 / rows;
        let honest = 4.0 * (uniform() - 0.5);
        let truth = if day >= 5 { late * honest } else { honest };
        let label = usize::from(uniform() < 1.0 / (1.0 + (-truth).exp()));
        let _ = writeln!(text, "{label},0,{},{country},{day}", factor * honest);
    }
    text
}

#[test]
fn groups_are_fitted_and_applied_by_their_column() {
    let folder = Folder::new();
    folder.write("calib.csv", table(4000, 1.0));
    let fitted = folder
        .run("fit calib.csv --by country --method ts --json -o m.safetensors")
        .ok()
        .json();
    assert_eq!(fitted["groups"].as_array().unwrap().len(), 2);
    let nll = |key: &str| fitted[key].as_f64().unwrap();
    assert!(nll("nll_after") < nll("nll_pooled") - 0.01, "{fitted}");
    assert_eq!(fitted["order_preserving"], true);
    let said = folder
        .run("fit calib.csv --by country --method ts -o n.safetensors")
        .ok();
    assert!(
        said.stdout.contains("FR") || said.stderr.contains("FR"),
        "{}",
        said.stdout
    );
    assert_eq!(
        std::fs::read(folder.path("m.safetensors")).unwrap(),
        std::fs::read(folder.path("n.safetensors")).unwrap()
    );

    folder.write(
        "new.csv",
        "logit_0,logit_1,country\n0,2,DE\n0,2,FR\n0,2,NL\n",
    );
    folder.run("apply m.safetensors new.csv -o out.csv").ok();
    let out = std::fs::read_to_string(folder.path("out.csv")).unwrap();
    let probs: Vec<f64> = out
        .lines()
        .skip(1)
        .map(|line| {
            let cells = line.split(',').filter_map(|cell| cell.parse::<f64>().ok());
            cells.fold(0.0, f64::max)
        })
        .collect();
    assert!(
        out.starts_with("country") || out.contains("country"),
        "{out}"
    );
    // Scores of FR are four times too large, those of DE are right, and NL was never seen.
    let logistic = |x: f64| 1.0 / (1.0 + (-x).exp());
    assert!((probs[0] - logistic(2.0)).abs() < 0.04, "{probs:?}");
    assert!((probs[1] - logistic(0.5)).abs() < 0.04, "{probs:?}");
    assert!(probs[1] < probs[2] && probs[2] < probs[0], "{probs:?}");
}

#[test]
fn what_groups_need_is_said() {
    let folder = Folder::new();
    folder.write("calib.csv", table(400, 1.0));
    for (line, said) in [
        (
            "fit calib.csv --by region --method ts -o m.safetensors --json",
            "no column `region`",
        ),
        (
            "fit calib.csv --method ts --min-rows 9 -o m.safetensors --json",
            "--by",
        ),
        (
            "fit calib.csv --by country --search quick -o m.safetensors --json",
            "--search",
        ),
    ] {
        let run = folder.run(line);
        assert_eq!(run.code, 2, "{line}");
        assert!(run.error().contains(said), "{}", run.error());
    }
    folder
        .run("fit calib.csv --by country --method ts -o m.safetensors")
        .ok();
    folder.write("new.csv", "logit_0,logit_1\n0,2\n");
    let run = folder.run("apply m.safetensors new.csv -o out.csv --json");
    assert!(
        run.code == 2 && run.error().contains("no column `country`"),
        "{}",
        run.error()
    );
    assert!(!folder.names().contains(&"out.csv".to_owned()));
    let run = folder.run("evaluate calib.csv --model m.safetensors --json");
    assert!(
        run.code == 2 && run.error().contains("models of groups"),
        "{}",
        run.error()
    );
}

#[test]
fn a_stream_that_stays_calibrated_gives_no_alarm_and_one_that_does_not_does() {
    let folder = Folder::new();
    // Only DE, whose scores are right.
    let only = |text: &str| -> String {
        let lines = text.lines().filter(|line| !line.contains("FR"));
        lines.fold(String::new(), |text, line| text + line + "\n")
    };
    folder.write("good.csv", only(&table(20_000, 1.0)));
    folder.write("bad.csv", only(&table(20_000, 0.2)));
    let good = folder.run("monitor good.csv --by day --json").ok().json();
    assert_eq!(good["alarm"], false);
    let windows = good["segments"][0]["windows"].as_array().unwrap();
    assert_eq!(windows.len(), 10);
    assert!(windows[3]["interval"]["ece"][0].as_f64().is_some());
    let bad = folder.run("monitor bad.csv --by day --json -o m.svg --prometheus m.prom");
    assert_eq!(bad.code, 1, "{}", bad.stderr);
    let alarm = bad.json()["segments"][0]["alarm"]["window"]
        .as_str()
        .unwrap()
        .parse::<u32>()
        .unwrap();
    assert!((5..=7).contains(&alarm), "{alarm}");
    assert!(
        std::fs::read_to_string(folder.path("m.svg"))
            .unwrap()
            .contains("<svg")
    );
    let text = std::fs::read_to_string(folder.path("m.prom")).unwrap();
    assert!(
        text.contains("ordercal_alarm{segment=\"all rows\",window=\"9\"} 1"),
        "{text}"
    );
    // By segment, after a model, and from states.
    folder.write("both.csv", table(20_000, 1.0));
    let run = folder.run("monitor both.csv --by day --segment country --json");
    assert_eq!(run.code, 1);
    let segments = run.json()["segments"].clone();
    assert!(
        segments[0]["alarm"].is_null() && !segments[1]["alarm"].is_null(),
        "{segments}"
    );
    folder
        .run("fit both.csv --by country --method ts -o m.safetensors")
        .ok();
    folder
        .run("monitor both.csv --by day --segment country --model m.safetensors")
        .ok();
    folder.run("evaluate good.csv --state-out a.state").ok();
    folder.run("evaluate bad.csv --state-out b.state").ok();
    let run = folder.run("monitor a.state b.state --json");
    assert_eq!(run.json()["segments"][0]["alarm"]["window"], "b");
    for (line, said) in [
        ("monitor good.csv --json", "--by"),
        ("monitor good.csv --by week --json", "no column `week`"),
        ("monitor good.csv bad.csv --by day --json", "one file"),
        ("monitor good.csv --by day --alpha 2 --json", "alpha"),
        ("monitor good.csv --by day -o m.pdf --json", ".svg or .png"),
    ] {
        let run = folder.run(line);
        assert!(
            run.code == 2 && run.error().contains(said),
            "{line}: {}",
            run.stdout
        );
    }
}

#[test]
fn groups_of_folds_and_soft_labels_are_refused() {
    let folder = Folder::new();
    folder.write("calib.csv", table(200, 1.0));
    let both = folder.run("fit calib.csv --by country --groups day -o m.safetensors");
    assert_eq!(both.code, 2);
    assert!(both.stderr.contains("--groups"), "{}", both.stderr);
    folder.write(
        "soft.csv",
        "q_0,q_1,logit_0,logit_1,country\n0.5,0.5,1,2,DE\n1,0,2,1,FR\n",
    );
    let soft = folder.run("fit soft.csv --soft-labels q_* --by country -o m.safetensors");
    assert_eq!(soft.code, 2);
    assert!(soft.stderr.contains("soft labels"), "{}", soft.stderr);
    assert_eq!(folder.names(), ["calib.csv", "soft.csv"]);
}
