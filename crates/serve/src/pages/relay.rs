//! Pages that another machine makes: each request goes there, and its answer comes back in pieces.
//!
//! What comes from there is data: only its text, its status and three headers are passed on, and a policy that would allow more
//! than our own pages do is not.

use std::sync::Arc;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::http::header::{CONTENT_SECURITY_POLICY, CONTENT_TYPE, LOCATION};
use axum::http::{HeaderName, HeaderValue, Method, StatusCode};
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use model::load::pages::{AnswerPart, PIECES_MAX, PageRequest};
use report::site;
use tokio::sync::mpsc;

use super::{ALL, answer};
use crate::Elsewhere;

/// The directives of our pages' policies, each with the sources that it may have; of scripts and styles also those that a hash names.
const POLICY: [(&str, &[&str]); 7] = [
    ("default-src", &["'none'"]),
    ("script-src", &["'none'"]),
    ("style-src", &["'none'"]),
    ("connect-src", &["'self'", "'none'"]),
    ("base-uri", &["'none'"]),
    ("frame-ancestors", &["'none'"]),
    ("form-action", &["'self'", "'none'"]),
];

#[derive(Debug)]
pub(crate) struct PageRelay {
    pub(crate) elsewhere: Box<dyn Elsewhere>,
    pub(crate) tool_version: &'static str,
}

/// The pages of another machine.
pub(crate) fn routes(relay: PageRelay) -> Router {
    Router::new().fallback(relayed).with_state(Arc::new(relay))
}

/// An answer that is under way. Dropping it says that nobody waits for it any more.
struct UnderWay {
    relay: Arc<PageRelay>,
    id: u64,
    parts: mpsc::Receiver<AnswerPart>,
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.relay.elsewhere.leave(self.id);
    }
}

async fn relayed(State(relay): State<Arc<PageRelay>>, request: Request) -> Response {
    let last_event = request.headers().get("last-event-id").and_then(|value| value.to_str().ok());
    let asked = PageRequest {
        id: 0,
        is_post: request.method() == Method::POST,
        address: request.uri().path_and_query().map_or_else(|| "/".to_string(), ToString::to_string),
        last_event: last_event.map(str::to_string),
    };
    // A head, all pieces that may be under way, and an end.
    let (sender, parts) = mpsc::channel(PIECES_MAX + 2);
    let id = relay.elsewhere.ask(asked, Box::new(move |part| sender.try_send(part).is_ok()));
    let mut answer = UnderWay { relay, id, parts };
    match answer.parts.recv().await {
        Some(AnswerPart::Head { status, headers }) => passed_on(status, &headers, answer),
        Some(AnswerPart::Lost(reason)) => no_answer(&answer.relay, &reason),
        other => no_answer(&answer.relay, &format!("an answer began with {other:?}")),
    }
}

fn no_answer(relay: &PageRelay, reason: &str) -> Response {
    let words = model::secret::hide_text(reason);
    let page = site::notice("The other machine does not answer", &words, &[ALL], relay.tool_version);
    (StatusCode::BAD_GATEWAY, answer(page)).into_response()
}

fn passed_on(status: u16, headers: &[(String, String)], answer: UnderWay) -> Response {
    let pieces = stream::unfold(answer, |mut answer| async move {
        match answer.parts.recv().await {
            Some(AnswerPart::Piece(text)) => {
                answer.relay.elsewhere.took(answer.id);
                Some((Ok(Bytes::from(text)), answer))
            }
            Some(AnswerPart::End) => None,
            // The browser sees that something is missing.
            Some(AnswerPart::Lost(_) | AnswerPart::Head { .. }) | None => {
                Some((Err(std::io::Error::from(std::io::ErrorKind::ConnectionReset)), answer))
            }
        }
    });
    let mut response = Response::new(Body::from_stream(pieces));
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::BAD_GATEWAY);
    for (name, value) in headers {
        if let Some((name, value)) = allowed(name, value) {
            response.headers_mut().insert(name, value);
        }
    }
    response
}

fn allowed(name: &str, value: &str) -> Option<(HeaderName, HeaderValue)> {
    let name: HeaderName = name.parse().ok()?;
    let is_allowed = match name {
        CONTENT_TYPE => true,
        CONTENT_SECURITY_POLICY => is_ours(value),
        LOCATION => is_here(value),
        _ => false,
    };
    is_allowed.then_some((name, HeaderValue::from_str(value).ok()?))
}

/// Whether a location is an address of this server. Browsers drop tabs and ends of lines, and take `\` for `/`.
fn is_here(location: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_graphic() && byte != b'\\';
    location.bytes().all(is_plain) && location.starts_with('/') && !location.starts_with("//")
}

/// Whether a policy allows no more than ours do.
fn is_ours(policy: &str) -> bool {
    let mut directives = policy.split(';').map(str::split_ascii_whitespace);
    let is_narrow = |mut directive: std::str::SplitAsciiWhitespace| {
        let Some((name, sources)) = directive.next().and_then(|name| POLICY.iter().find(|one| one.0 == name))
        else {
            return false;
        };
        let is_hash =
            |source: &str| ["script-src", "style-src"].contains(name) && source.starts_with("'sha256-");
        directive.all(|source| sources.contains(&source) || is_hash(source))
    };
    policy.starts_with("default-src 'none'; ") && directives.all(is_narrow)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_machine_gives_no_cookies_and_no_policy_of_its_own() {
        for (name, value, is_passed) in [
            ("content-type", "text/html; charset=utf-8", true),
            ("content-security-policy", "default-src 'none'; script-src 'sha256-x'", true),
            (
                "content-security-policy",
                "default-src 'none'; script-src 'sha256-x' 'sha256-y'; style-src 'sha256-z'; connect-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
                true,
            ),
            ("content-security-policy", "default-src *", false),
            ("content-security-policy", "default-src 'none'; script-src * 'unsafe-inline'", false),
            ("content-security-policy", "default-src 'none'; connect-src *", false),
            ("content-security-policy", "default-src 'none'; connect-src 'sha256-x'", false),
            ("content-security-policy", "default-src 'none'; frame-src *", false),
            ("location", "/live/a", true),
            ("location", "//evil.example.org/", false),
            ("location", "/\\evil.example.org/", false),
            ("location", "/\t/evil.example.org/", false),
            ("location", "https://evil.example.org/", false),
            ("set-cookie", "a=b", false),
            ("access-control-allow-origin", "*", false),
            ("content-type", "a\r\nset-cookie: a=b", false),
        ] {
            assert_eq!(allowed(name, value).is_some(), is_passed, "{name}: {value}");
        }
    }
}
