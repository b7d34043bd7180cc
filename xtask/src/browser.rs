//! `cargo xtask browser`: the report in a real browser.
//!
//! A page of our own loads the demo's report into frames as narrow as a phone and as wide as a desk, sorts
//! every table by every column, and writes down what went wrong; headless Chromium prints that page. No
//! driver and no other package is needed.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::debian;
use crate::run::{cargo, skip, step};

/// What the browser is called; the first is Debian's package, too.
const NAMES: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];

/// Why a page was not looked at.
pub const MISSING: &str = "there is no Chromium, and apt-get cannot install it here";

/// For a run without a screen, without a sandbox (which root cannot have) and without the network beyond this machine.
const FLAGS: [&str; 11] = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
    "--enable-logging=stderr",
];

/// How long a page may take, on a machine that is busy with something else.
const MOST_SECONDS: &str = "300";

/// The checks, as a script of the page around the report.
const CHECKS: &str = include_str!("browser/checks.html");

/// Writes the demo's report and has it checked.
///
/// With `built` the program is taken as it is: building it alone would build its dependencies with other
/// features than the tests do, a second time.
pub fn run(built: bool) -> Result<()> {
    let folder = crate::root().join("target/browser");
    let Some(browser) = Browser::find(folder.clone())? else {
        skip("browser", 1, "report", MISSING);
        return Ok(());
    };
    let demo = folder.join("demo");
    if !built {
        step(&mut cargo(&["build", "--bin", "ordercal"]))?;
    }
    // Cargo puts both programs into the same folder, wherever that is.
    let program = std::env::current_exe()?.with_file_name("ordercal");
    let output = Command::new(&program)
        .args(["demo", "--quiet", "--out"])
        .arg(&demo)
        .output()
        .with_context(|| format!("cannot run {}", program.display()))?;
    if !output.status.success() {
        bail!(
            "the demo failed: {}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
    let report = demo.join("report.html");
    let html = std::fs::read_to_string(&report).context("the demo left no report")?;
    let page = folder.join("checks.html");
    std::fs::write(&page, CHECKS.replace("\"REPORT\"", &script_string(&html)))?;

    let alone = browser.visit(&file(&report), &["--dump-dom"])?;
    no_complaints(&alone)?;
    let checked = browser.visit(&file(&page), &["--virtual-time-budget=60000", "--dump-dom"])?;
    no_complaints(&checked)?;
    match verdict_of(&checked.page) {
        Some(verdict) if verdict.starts_with("fine: ") => println!("== browser: {verdict}"),
        Some(problems) => bail!("the report does not work in a browser:\n{problems}"),
        None => bail!("the checks did not come to an end"),
    }
    Ok(())
}

fn file(path: &Path) -> String {
    format!("file://{}", path.display())
}

/// What the script of a page of checks wrote into it at the end.
pub fn verdict_of(page: &str) -> Option<&str> {
    page.split("<pre id=\"result\">")
        .nth(1)?
        .split("</pre>")
        .next()
}

/// What a visit gave: the page as it ended, and what the browser had to say.
pub struct Visit {
    pub page: String,
    said: String,
}

/// A browser, with a folder for what it writes.
pub struct Browser {
    program: &'static str,
    folder: PathBuf,
}

impl Browser {
    /// A browser that is there, or that can be installed, with an empty folder.
    pub fn find(folder: PathBuf) -> Result<Option<Self>> {
        let installed = || debian::install(NAMES[0]).then(present).flatten();
        let Some(program) = present().or_else(installed) else {
            return Ok(None);
        };
        if folder.exists() {
            std::fs::remove_dir_all(&folder)?;
        }
        std::fs::create_dir_all(&folder)?;
        Ok(Some(Self { program, folder }))
    }

    /// Loads a page in a profile of its own; gives up on a browser that does not come back.
    pub fn visit(&self, url: &str, flags: &[&str]) -> Result<Visit> {
        let profile = self.folder.join("profile");
        let output = Command::new("timeout")
            .args([MOST_SECONDS, self.program])
            .args(FLAGS)
            .arg(format!("--user-data-dir={}", profile.display()))
            .args(flags)
            .arg(url)
            .output()
            .context("cannot run timeout")?;
        std::fs::remove_dir_all(&profile).ok();
        let visit = Visit {
            page: String::from_utf8_lossy(&output.stdout).into_owned(),
            said: String::from_utf8_lossy(&output.stderr).into_owned(),
        };
        if !output.status.success() {
            eprint!("{}", visit.said);
            bail!("{} failed: {}", self.program, output.status);
        }
        Ok(visit)
    }
}

/// Nothing that a page says on the console is expected.
pub fn no_complaints(visit: &Visit) -> Result<()> {
    let said: Vec<&str> = visit
        .said
        .lines()
        .filter(|line| line.contains(":CONSOLE"))
        .collect();
    if !said.is_empty() {
        bail!("the page complains:\n{}", said.join("\n"));
    }
    Ok(())
}

/// Text as a string of a script inside a page.
fn script_string(text: &str) -> String {
    let quoted = serde_json::Value::from(text).to_string();
    quoted.replace("</", "<\\/").replace("<!--", "<\\!--")
}

/// The browser that is there.
fn present() -> Option<&'static str> {
    let runs = |name: &&str| {
        let output = Command::new(name).arg("--version").output();
        output.is_ok_and(|o| o.status.success())
    };
    NAMES.into_iter().find(runs)
}
