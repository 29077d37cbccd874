//! A page in a browser without a screen, driven through the browser's own protocol over two pipes.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nix::fcntl::{FcntlArg, fcntl};
use serde_json::{Value, json};

/// Longest wait for anything.
const LIMIT: Duration = Duration::from_secs(60);
/// How long a browser may take to end by itself.
const END_LIMIT: Duration = Duration::from_secs(5);
/// The descriptors at which the browser expects its pipes, and where ours are kept apart from them.
const PIPES: [i32; 2] = [3, 4];
const SPARE_FD: i32 = 10;

/// The window in which a page is opened.
#[derive(Debug, Clone, Copy)]
pub struct WindowLook {
    /// Width of the window in pixels.
    pub width: u32,
    /// Height of the window in pixels.
    pub height: u32,
    /// Whether the reader prefers dark pages.
    pub is_dark: bool,
}

/// A page; the browser ends with it.
pub struct Tab {
    browser: Child,
    to: File,
    from: BufReader<File>,
    last_id: u64,
    session: String,
    /// Events that came while something else was waited for.
    events: VecDeque<Value>,
}

impl Tab {
    /// Opens an empty page. The browser keeps its files in `directory`.
    ///
    /// # Panics
    /// If there is no browser.
    #[must_use]
    pub fn open(directory: &Path, look: WindowLook) -> Tab {
        let (of_browser, to) = nix::unistd::pipe().unwrap();
        let (from, by_browser) = nix::unistd::pipe().unwrap();
        // Above the numbers that they get in the browser: copying one there must not overwrite the other.
        let moved = |fd: &std::os::fd::OwnedFd| fcntl(fd, FcntlArg::F_DUPFD_CLOEXEC(SPARE_FD)).unwrap();
        let (reads, writes) = (moved(&of_browser), moved(&by_browser));
        for fd in [&to, &from] {
            fcntl(fd, FcntlArg::F_SETFD(nix::fcntl::FdFlag::FD_CLOEXEC)).unwrap();
        }
        let mut command = Command::new(super::chromium());
        command
            .args(super::OPTIONS)
            .arg("--remote-debugging-pipe")
            .arg(format!("--user-data-dir={}", directory.join("tab").display()))
            .arg(format!("--window-size={},{}", look.width, look.height))
            .arg("about:blank")
            .env("TMPDIR", directory)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        // SAFETY: dup2 may be called between fork and exec.
        unsafe {
            command.pre_exec(move || {
                for (own, wanted) in [(reads, PIPES[0]), (writes, PIPES[1])] {
                    if nix::libc::dup2(own, wanted) < 0 {
                        return Err(std::io::Error::last_os_error());
                    }
                }
                Ok(())
            })
        };
        let browser = crate::process::spawn(command);
        drop((of_browser, by_browser));
        for fd in [reads, writes] {
            nix::unistd::close(fd).unwrap();
        }
        let mut tab = Tab {
            browser,
            to: to.into(),
            from: BufReader::new(from.into()),
            last_id: 0,
            session: String::new(),
            events: VecDeque::new(),
        };
        let target = tab.call("Target.createTarget", json!({ "url": "about:blank" }));
        let session =
            tab.call("Target.attachToTarget", json!({ "targetId": target["targetId"], "flatten": true }));
        tab.session = session["sessionId"].as_str().unwrap().to_string();
        tab.call("Page.enable", json!({}));
        tab.call("Page.setLifecycleEventsEnabled", json!({ "enabled": true }));
        // The page hears of its focus whatever has that of the browser.
        tab.call("Emulation.setFocusEmulationEnabled", json!({ "enabled": true }));
        tab.resize(look);
        tab
    }

    /// Gives the window another size and colour scheme. Nothing moves by itself, so that what is looked at stays where it is.
    pub fn resize(&mut self, look: WindowLook) {
        let WindowLook { width, height, is_dark } = look;
        let size = json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600 });
        self.call("Emulation.setDeviceMetricsOverride", size);
        let scheme = if is_dark { "dark" } else { "light" };
        self.call(
            "Emulation.setEmulatedMedia",
            json!({ "features": [
                { "name": "prefers-color-scheme", "value": scheme },
                { "name": "prefers-reduced-motion", "value": "reduce" },
            ] }),
        );
    }

    /// Goes to an address and waits until the page is loaded.
    pub fn go(&mut self, address: &str) {
        self.events.clear();
        let loader = self.call("Page.navigate", json!({ "url": address }))["loaderId"].clone();
        // The page before may be loaded only now.
        self.event(|event| {
            let params = &event["params"];
            event["method"] == json!("Page.lifecycleEvent")
                && params["name"] == json!("load")
                && params["loaderId"] == loader
        });
    }

    /// The value of an expression; promises are waited for.
    ///
    /// # Panics
    /// If it throws.
    pub fn eval(&mut self, expression: &str) -> Value {
        let params = json!({ "expression": expression, "returnByValue": true, "awaitPromise": true });
        let answer = self.call("Runtime.evaluate", params);
        assert!(answer.get("exceptionDetails").is_none(), "{expression}: {answer}");
        answer["result"]["value"].clone()
    }

    /// Waits until an expression is true, or for something else that counts as true in JavaScript.
    ///
    /// # Panics
    /// If it does not become true in time.
    pub fn wait_for(&mut self, expression: &str) {
        let begun = Instant::now();
        while self.eval(&format!("Boolean({expression})")) != json!(true) {
            assert!(begun.elapsed() < LIMIT, "not in {} s: {expression}", LIMIT.as_secs());
            std::thread::sleep(Duration::from_millis(30));
        }
    }

    /// Presses and releases a key: `Tab`, `Enter`, ` `, or a letter.
    pub fn key(&mut self, key: &str) {
        let (code, number) = match key {
            "Tab" => ("Tab", 9),
            "Enter" => ("Enter", 13),
            " " => ("Space", 32),
            _ => ("", 0),
        };
        let text = match key {
            "Tab" => "",
            "Enter" => "\r",
            other => other,
        };
        for kind in ["keyDown", "keyUp"] {
            let params = json!({ "type": kind, "key": key, "code": code, "windowsVirtualKeyCode": number, "text": if kind == "keyDown" { text } else { "" } });
            self.call("Input.dispatchKeyEvent", params);
        }
    }

    /// Roles and names of all that a screen reader finds, in order.
    pub fn roles(&mut self) -> Vec<(String, String)> {
        let tree = self.call("Accessibility.getFullAXTree", json!({}));
        let nodes = tree["nodes"].as_array().unwrap().iter().filter(|node| node["ignored"] != json!(true));
        let text = |value: &Value| value["value"].as_str().unwrap_or_default().to_string();
        nodes.map(|node| (text(&node["role"]), text(&node["name"]))).collect()
    }

    /// Writes a picture of the window, or of the whole page.
    pub fn picture(&mut self, file: &Path, is_whole: bool) {
        let params = json!({ "format": "png", "captureBeyondViewport": is_whole });
        let params = if is_whole {
            let size = self.call("Page.getLayoutMetrics", json!({}))["cssContentSize"].clone();
            let clip =
                json!({ "x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1 });
            json!({ "format": "png", "captureBeyondViewport": true, "clip": clip })
        } else {
            params
        };
        let data = self.call("Page.captureScreenshot", params)["data"].as_str().unwrap().to_string();
        std::fs::write(file, decoded(&data)).unwrap();
    }

    /// Calls a method of the protocol.
    ///
    /// # Panics
    /// If the browser reports an error, or has ended.
    pub fn call(&mut self, method: &str, params: Value) -> Value {
        self.last_id += 1;
        let id = self.last_id;
        let mut message = json!({ "id": id, "method": method, "params": params });
        if !self.session.is_empty() {
            message["sessionId"] = json!(self.session);
        }
        self.send(&message).unwrap();
        loop {
            let answer = self.receive();
            if answer["id"] == json!(id) {
                assert!(answer.get("error").is_none(), "{method}: {answer}");
                return answer["result"].clone();
            }
            if answer.get("method").is_some() {
                self.events.push_back(answer);
            }
        }
    }

    fn send(&mut self, message: &Value) -> std::io::Result<()> {
        self.to.write_all(format!("{message}\0").as_bytes())
    }

    /// Waits for an event.
    fn event(&mut self, is_it: impl Fn(&Value) -> bool) {
        loop {
            if let Some(at) = self.events.iter().position(&is_it) {
                self.events.remove(at);
                return;
            }
            let message = self.receive();
            if message.get("method").is_some() {
                self.events.push_back(message);
            }
        }
    }

    fn receive(&mut self) -> Value {
        let mut bytes = Vec::new();
        let wait = nix::poll::PollTimeout::try_from(LIMIT).unwrap();
        if self.from.buffer().is_empty() {
            let fd = self.from.get_ref();
            let mut polled =
                [nix::poll::PollFd::new(std::os::fd::AsFd::as_fd(fd), nix::poll::PollFlags::POLLIN)];
            assert!(nix::poll::poll(&mut polled, wait).unwrap() > 0, "the browser is silent");
        }
        self.from.read_until(0, &mut bytes).unwrap();
        assert_eq!(bytes.pop(), Some(0), "the browser has ended");
        serde_json::from_slice(&bytes).unwrap()
    }
}

impl Drop for Tab {
    /// Lets the browser end by itself: of one that is killed, some processes live on for a moment and write into its directory while that is
    /// removed.
    fn drop(&mut self) {
        let message = json!({ "id": self.last_id + 1, "method": "Browser.close" });
        // One that has ended reads nothing.
        let _ = self.send(&message);
        let begun = Instant::now();
        while begun.elapsed() < END_LIMIT && matches!(self.browser.try_wait(), Ok(None)) {
            std::thread::sleep(Duration::from_millis(10));
        }
        let _ = self.browser.kill();
        let _ = self.browser.wait();
    }
}

/// Bytes from base64.
fn decoded(text: &str) -> Vec<u8> {
    let value = |c: u8| match c {
        b'A'..=b'Z' => c - b'A',
        b'a'..=b'z' => c - b'a' + 26,
        b'0'..=b'9' => c - b'0' + 52,
        b'+' => 62,
        _ => 63,
    };
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3);
    for four in text.as_bytes().chunks(4) {
        let bits =
            four.iter().filter(|c| **c != b'=').fold(0_u32, |bits, c| bits << 6 | u32::from(value(*c)));
        match four.iter().filter(|c| **c != b'=').count() {
            4 => bytes.extend([(bits >> 16) as u8, (bits >> 8) as u8, bits as u8]),
            3 => bytes.extend([(bits >> 10) as u8, (bits >> 2) as u8]),
            _ => bytes.push((bits >> 4) as u8),
        }
    }
    bytes
}
