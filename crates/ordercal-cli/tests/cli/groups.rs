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
fn soft_labels_are_refused_and_rows_that_belong_together_stay_together() {
    let folder = Folder::new();
    folder.write(
        "soft.csv",
        "q_0,q_1,logit_0,logit_1,country\n0.5,0.5,1,2,DE\n1,0,2,1,FR\n",
    );
    for line in [
        "fit soft.csv --soft-labels q_* --by country -o m.safetensors",
        "evaluate soft.csv --soft-labels q_* --by country",
    ] {
        let soft = folder.run(line);
        assert_eq!(soft.code, 2);
        assert!(soft.stderr.contains("soft labels"), "{}", soft.stderr);
    }
    assert_eq!(folder.names(), ["soft.csv"]);
    folder.write("calib.csv", table(600, 1.0));
    let fit = |more: &str| {
        let line = "fit calib.csv --by country --method ts --json -o m.safetensors ";
        folder.run(&(line.to_owned() + more)).ok().json()["nll_after"].clone()
    };
    assert_ne!(fit("--groups day"), fit(""));
}

/// A folder with a model of groups, and the rows it is fitted to.
fn fitted() -> Folder {
    let folder = Folder::new();
    folder.write("calib.csv", table(2000, 1.0));
    folder
        .run("fit calib.csv --by country --method ts -o m.safetensors")
        .ok();
    folder
}

#[test]
fn evaluate_measures_each_group_with_any_model() {
    let folder = fitted();
    folder.write("test.csv", table(3000, 1.0));
    folder
        .run("fit calib.csv --method ts -o one.safetensors")
        .ok();
    let line = "evaluate test.csv --model one.safetensors --model m.safetensors --by country --metrics nll,ece --json";
    let found = folder.run(line).ok().json();
    assert_eq!(found["by"][0], "country");
    let groups = found["groups"].as_array().unwrap();
    let keys: Vec<&str> = groups
        .iter()
        .map(|g| g["key"][0].as_str().unwrap())
        .collect();
    assert_eq!(keys, ["DE", "FR"]);
    assert_eq!((&groups[0]["n"], &found["n"]), (&1500.into(), &3000.into()));
    let nll = |of: &serde_json::Value, place: usize| {
        of["rows"][place]["metrics"]["nll"].as_f64().unwrap()
    };
    for place in 0..3 {
        // Both groups have as many rows.
        let mean = f64::midpoint(nll(&groups[0], place), nll(&groups[1], place));
        assert!((nll(&found, place) - mean).abs() < 1e-12, "{found}");
    }
    assert!(nll(&found, 2) < nll(&found, 1) - 0.01, "{found}");
    assert_eq!(found["rows"][2]["changed_predictions"], 0);
    // The same metrics as those of the rows of one group alone.
    let text = table(3000, 1.0);
    let lines = text.lines().filter(|line| !line.contains("FR"));
    folder.write(
        "de.csv",
        lines.map(|line| line.to_owned() + "\n").collect::<String>(),
    );
    let alone = folder.run("evaluate de.csv --model m.safetensors#DE --metrics nll,ece --json");
    let alone = alone.ok().json();
    assert_eq!(alone["rows"][1]["metrics"], groups[0]["rows"][2]["metrics"]);
    assert_eq!(alone["rows"][1]["name"], "m#DE");

    let said = folder
        .run("evaluate test.csv --model m.safetensors --by country,day")
        .ok();
    for part in ["DE, 0", "FR, 9", "rows", "nll"] {
        assert!(said.stdout.contains(part), "{}", said.stdout);
    }
    for (line, said) in [
        ("evaluate test.csv --by region --json", "no column `region`"),
        (
            "evaluate test.csv --model m.safetensors#NL --json",
            "there is no group `NL`; there are DE FR",
        ),
        (
            "evaluate test.csv --model one.safetensors#DE --json",
            "holds one model, and no group `DE`",
        ),
    ] {
        let run = folder.run(line);
        assert!(
            run.code == 2 && run.error().contains(said),
            "{}",
            run.stdout
        );
    }
}

#[test]
fn inspect_shows_models_of_groups() {
    let folder = fitted();
    let said = folder.run("inspect m.safetensors").ok().stdout;
    for part in [
        "models of groups by country for 2 classes: ts for all rows, ts for each group",
        "keeps the ranking",
        "2000 rows in 2 groups",
        "n/(n + ",
        "DE",
        "FR",
        "held-out NLL",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
    let found = folder.run("inspect m.safetensors --json").ok().json();
    assert_eq!(found["what"], "models of groups");
    assert_eq!(
        (&found["by"][0], &found["classes"]),
        (&"country".into(), &2.into())
    );
    let groups = found["report"]["groups"].as_array().unwrap();
    assert_eq!((groups.len(), &groups[1]["rows"]), (2, &1000.into()));
    let run = folder.run("inspect m.safetensors#DE --json");
    assert!(
        run.code == 2 && run.error().contains("leave out #DE"),
        "{}",
        run.stdout
    );
    // A damaged file is not taken for scores.
    let mut bytes = std::fs::read(folder.path("m.safetensors")).unwrap();
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    folder.write("damaged.safetensors", bytes);
    let run = folder.run("inspect damaged.safetensors --json");
    assert!(
        run.code == 2 && run.error().contains("damaged"),
        "{}",
        run.stdout
    );
}

#[test]
fn other_commands_take_the_model_of_one_group() {
    let folder = fitted();
    for line in [
        "export m.safetensors#FR -o fr.onnx",
        "export m.safetensors#all -o all.onnx",
        "apply m.safetensors#FR calib.csv -o fr.csv",
        "plot reliability calib.csv --model m.safetensors -o r.svg",
        "plot reliability calib.csv --model m.safetensors#FR -o r.svg",
    ] {
        folder.run(line).ok();
    }
    assert_ne!(
        std::fs::read(folder.path("fr.onnx")).unwrap(),
        std::fs::read(folder.path("all.onnx")).unwrap()
    );
    folder.run("plot transform m.safetensors#all -o t.svg").ok();
    for line in [
        "export m.safetensors -o m.onnx --json",
        "plot transform m.safetensors -o t.svg --json",
        "plot simplex m.safetensors -o t.svg --json",
    ] {
        let run = folder.run(line);
        let said = "name one of them, as in m.safetensors#DE, or m.safetensors#all";
        assert!(
            run.code == 2 && run.error().contains(said),
            "{}",
            run.stdout
        );
    }
    let run = folder.run("apply m.safetensors#FR calib.csv -o m.safetensors --json");
    assert!(
        run.code == 2 && run.error().contains("also an input"),
        "{}",
        run.stdout
    );
}
