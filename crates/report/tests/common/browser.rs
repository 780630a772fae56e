//! Chromium without a window, driven by its DevTools protocol over a pipe: JSON, each message ended by a zero byte.

use std::fs::{File, OpenOptions};
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use serde_json::{Value as Json, json};

use super::Temp;

const NAMES: [&str; 4] = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];
const PATIENCE: Duration = Duration::from_secs(60);

/// A page in a browser of its own.
pub(crate) struct Browser {
    process: Child,
    orders: File,
    answers: Receiver<Json>,
    /// What the page did meanwhile.
    pub(crate) events: Vec<Json>,
    page: Option<String>,
    number: u64,
    _profile: Temp,
}

/// The browser, or nothing where none is installed, which is said; `KNEE_REQUIRE_BROWSER=1` makes that a failure.
pub(crate) fn open(name: &str) -> Option<Browser> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let installed = |name: &&&str| std::env::split_paths(&path).any(|dir| dir.join(name).is_file());
    match NAMES.iter().find(installed) {
        Some(program) => Some(Browser::start(program)),
        None => {
            let required =
                std::env::var_os("KNEE_REQUIRE_BROWSER").is_some_and(|value| value != "0");
            assert!(
                !required,
                "no Chromium is installed, and KNEE_REQUIRE_BROWSER asks for one: see make setup"
            );
            // Not eprintln!, whose text the harness keeps to itself when a test passes.
            let _ = writeln!(
                std::io::stderr(),
                "SKIPPED: {name}: no Chromium is installed (make setup)"
            );
            None
        }
    }
}

impl Browser {
    fn start(program: &str) -> Browser {
        let profile = Temp::new();
        let (orders, answers) = (profile.join("orders"), profile.join("answers"));
        let made = Command::new("mkfifo").arg(&orders).arg(&answers).status().expect("mkfifo runs");
        assert!(made.success(), "mkfifo failed");
        // As root there is no sandbox; the pages are our own.
        let process = Command::new("sh")
            .arg("-c")
            .arg("exec \"$PROGRAM\" --headless=new --no-sandbox --disable-gpu --no-first-run --remote-debugging-pipe \
                  --user-data-dir=\"$PROFILE\" about:blank 3<\"$ORDERS\" 4>\"$ANSWERS\"")
            .env("PROGRAM", program)
            .env("PROFILE", profile.join("data"))
            // Sockets that it would leave behind when it is killed.
            .env("TMPDIR", profile.join(""))
            .env("ORDERS", &orders)
            .env("ANSWERS", &answers)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("a shell");
        let orders = OpenOptions::new().write(true).open(&orders).expect("the pipe of orders");
        let pipe = BufReader::new(File::open(&answers).expect("the pipe of answers"));
        let (sender, answers) = channel();
        std::thread::spawn(move || {
            for message in pipe.split(0).map_while(Result::ok) {
                let Ok(message) = serde_json::from_slice(&message) else { break };
                if sender.send(message).is_err() {
                    break;
                }
            }
        });
        let mut browser = Browser {
            process,
            orders,
            answers,
            events: Vec::new(),
            page: None,
            number: 0,
            _profile: profile,
        };
        let target = browser.send("Target.createTarget", json!({ "url": "about:blank" }));
        let attached = browser.send(
            "Target.attachToTarget",
            json!({ "targetId": target["targetId"], "flatten": true }),
        );
        browser.page = attached["sessionId"].as_str().map(str::to_owned);
        for domain in ["Page", "Runtime", "Log", "Network"] {
            browser.send(&format!("{domain}.enable"), json!({}));
        }
        browser
    }

    /// Gives an order and waits for its answer.
    pub(crate) fn send(&mut self, method: &str, params: Json) -> Json {
        self.number += 1;
        let mut order = json!({ "id": self.number, "method": method, "params": params });
        if let Some(page) = &self.page {
            order["sessionId"] = page.clone().into();
        }
        self.orders.write_all(format!("{order}\0").as_bytes()).expect("the browser takes orders");
        let end = Instant::now() + PATIENCE;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            let mut message =
                self.answers.recv_timeout(left).unwrap_or_else(|why| panic!("{method}: {why}"));
            if message["id"] == self.number {
                assert!(message.get("error").is_none(), "{method}: {}", message["error"]);
                return message["result"].take();
            }
            if message.get("method").is_some() {
                self.events.push(message);
            }
        }
    }

    /// The value of an expression in the page.
    pub(crate) fn eval(&mut self, expression: &str) -> Json {
        let asked =
            json!({ "expression": expression, "awaitPromise": true, "returnByValue": true });
        let mut answer = self.send("Runtime.evaluate", asked);
        assert!(
            answer.get("exceptionDetails").is_none(),
            "{expression}: {}",
            answer["exceptionDetails"]
        );
        answer["result"]["value"].take()
    }

    /// Waits until an expression is true.
    pub(crate) fn wait_for(&mut self, expression: &str) {
        let end = Instant::now() + PATIENCE;
        while self.eval(&format!("!!({expression})")) != true {
            assert!(Instant::now() < end, "never: {expression}");
            std::thread::sleep(Duration::from_millis(30));
        }
    }

    /// Waits until the page has been laid out and drawn, so that the mouse finds what is where it is measured.
    pub(crate) fn wait_for_drawing(&mut self) {
        self.eval(
            "new Promise(r => requestAnimationFrame(() => requestAnimationFrame(() => r(1))))",
        );
    }

    /// How wide and high the window is, and whether it is dark.
    pub(crate) fn resize(&mut self, width: u32, height: u32, dark: bool) {
        self.send(
            "Emulation.setDeviceMetricsOverride",
            json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": false }),
        );
        let value = if dark { "dark" } else { "light" };
        self.send(
            "Emulation.setEmulatedMedia",
            json!({ "features": [{ "name": "prefers-color-scheme", "value": value }] }),
        );
    }

    /// Opens a file and waits until it is loaded.
    pub(crate) fn load(&mut self, file: &Path) {
        self.send("Page.navigate", json!({ "url": format!("file://{}", file.display()) }));
        self.wait_for("document.readyState === 'complete' && location.protocol === 'file:'");
    }

    /// Moves the mouse, or presses or releases its button.
    pub(crate) fn mouse(&mut self, kind: &str, x: f64, y: f64, clicks: u32) {
        let button = if kind == "mouseMoved" && clicks == 0 { "none" } else { "left" };
        let buttons = u32::from(button == "left" && kind != "mouseReleased");
        self.send("Input.dispatchMouseEvent", json!({ "type": kind, "x": x, "y": y, "button": button, "buttons": buttons, "clickCount": clicks }));
        // A hand is slower than a frame, and plots look at the mouse once a frame.
        if kind == "mouseMoved" {
            self.wait_for_drawing();
        }
    }

    /// Everything that went wrong in the page, and every address that it asked for besides `own`.
    pub(crate) fn complaints(&self, own: &Path) -> Vec<String> {
        let own = format!("file://{}", own.display());
        let wrong = |event: &&Json| match event["method"].as_str().unwrap_or_default() {
            "Runtime.exceptionThrown" | "Log.entryAdded" | "Runtime.consoleAPICalled" => true,
            "Network.requestWillBeSent" => {
                let address = event["params"]["request"]["url"].as_str().unwrap_or_default();
                address != own && !address.starts_with("data:") && !address.starts_with("blob:")
            }
            "Network.webSocketCreated" => true,
            _ => false,
        };
        self.events.iter().filter(wrong).map(Json::to_string).collect()
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
