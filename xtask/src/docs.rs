//! `cargo xtask docs`: the guide. Runs the code of every page, builds the site, checks its links and looks at it in
//! headless Chromium.

use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use crate::browser::{Browser, MISSING, no_complaints, verdict_of};
use crate::python;
use crate::run::{cargo, skip, step};

/// Runs the blocks of pages; its documentation says how a page marks what.
const BLOCKS: &str = "xtask/src/docs/blocks.py";

/// Loads every page of the site at several widths, and writes down what is wrong.
const LOOK: &str = include_str!("docs/look.html");

/// Pages beside those of the folder `docs`.
const OTHER_PAGES: [&str; 2] = ["README.md", "python/README.md"];

/// Checks the guide, and with `fix` first writes outputs and pictures as they are now.
///
/// With `built` the program and the wheel are taken as they were built last.
pub fn run(built: bool, fix: bool) -> Result<()> {
    if !python::present() {
        let pages = pages(&crate::root().join("docs"), "md")?.len() + OTHER_PAGES.len();
        skip("docs", pages, "pages", python::MISSING);
        return Ok(());
    }
    let python = if built {
        python::tested()?
    } else {
        step(&mut cargo(&["build", "--bin", "ordercal"]))?;
        python::installed()?
    };
    let requirements = crate::root().join("docs/requirements.txt");
    step(python::pip(&python).arg("--requirement").arg(requirements))?;
    let work = crate::root().join("target/docs");
    run_blocks(&python, &work.join("run"), fix)?;
    let site = work.join("site");
    step(
        Command::new(&python)
            .args(["-m", "mkdocs", "build", "--strict", "--site-dir"])
            .arg(&site)
            .env("NO_MKDOCS_2_WARNING", "1")
            .current_dir(crate::root()),
    )?;
    println!("== docs: the site is in {}", site.display());
    look(&python, &work)
}

fn run_blocks(python: &Path, scratch: &Path, fix: bool) -> Result<()> {
    // Cargo puts all programs into the same folder, wherever that is.
    let program = std::env::current_exe()?.with_file_name("ordercal");
    ensure!(program.exists(), "{} is not there", program.display());
    let programs = program.parent().context("a program lies in a folder")?;
    let mut command = Command::new(python);
    command.arg(crate::root().join(BLOCKS));
    if fix {
        command.arg("--fix");
    }
    step(
        command
            .arg(crate::root())
            .arg(programs)
            .arg(scratch)
            .args(pages(&crate::root().join("docs"), "md")?)
            .args(OTHER_PAGES.map(|page| crate::root().join(page))),
    )
}

/// The files of a folder and of those below it, by name.
fn pages(folder: &Path, ending: &str) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in
        fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))?
    {
        let path = entry?.path();
        if path.is_dir() {
            found.extend(pages(&path, ending)?);
        } else if path.extension().is_some_and(|e| e == ending) {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

/// Looks at every page, light and dark.
fn look(python: &Path, work: &Path) -> Result<()> {
    let site = work.join("site");
    let relative = |page: PathBuf| -> Result<Value> {
        let path = page.strip_prefix(work)?.to_str();
        Ok(path.context("the path of a page is no text")?.into())
    };
    // 404.html is for the root of a server.
    let shown = pages(&site, "html")?.into_iter();
    let shown = shown.filter(|page| !page.ends_with("404.html"));
    let all = shown.map(relative).collect::<Result<Vec<_>>>()?;
    let Some(browser) = Browser::find(work.join("browser"))? else {
        skip("docs", all.len(), "pages of the site", MISSING);
        return Ok(());
    };
    let all = Value::Array(all);
    let server = Server::start(python, work)?;
    for (scheme, flag) in [("default", "1"), ("slate", "0")] {
        let page = LOOK
            .replace("\"PAGES\"", &all.to_string())
            .replace("SCHEME", scheme);
        fs::write(work.join("look.html"), page)?;
        let flags = [
            "--virtual-time-budget=600000",
            "--dump-dom",
            &format!("--blink-settings=preferredColorScheme={flag}"),
        ];
        let visit = browser.visit(&server.url("look.html"), &flags)?;
        no_complaints(&visit)?;
        match verdict_of(&visit.page) {
            Some(verdict) if verdict.starts_with("fine: ") => {
                println!("== docs: {scheme}: {verdict}");
            }
            Some(problems) => bail!("pages do not look right ({scheme}):\n{problems}"),
            None => bail!("the look at the pages did not come to an end"),
        }
    }
    Ok(())
}

/// Python's own web server: frames may look into each other only if they come from one.
struct Server {
    child: Child,
    port: u16,
}

impl Server {
    fn start(python: &Path, folder: &Path) -> Result<Self> {
        // A port that was free a moment ago.
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let child = Command::new(python)
            .args(["-m", "http.server", "--bind", "127.0.0.1", "--directory"])
            .arg(folder)
            .arg(port.to_string())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        let server = Self { child, port };
        for _ in 0..200 {
            if std::net::TcpStream::connect(("127.0.0.1", port)).is_ok() {
                return Ok(server);
            }
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
        bail!("the web server does not answer")
    }

    fn url(&self, page: &str) -> String {
        format!("http://127.0.0.1:{}/{page}", self.port)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}
