//! In front of all pages, wherever they are made: who may come in, what protects an answer, and the token.

use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::{Context, Result};
use axum::Router;
use axum::extract::connect_info::ConnectInfo;
use axum::extract::{Request, State};
use axum::http::header::{
    CACHE_CONTROL, CONNECTION, CONTENT_SECURITY_POLICY, HeaderName, REFERRER_POLICY, WWW_AUTHENTICATE,
    X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{HeaderValue, StatusCode};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::get;
use report::site;

use super::answer;
use super::listener::Arrival;
use crate::ServeOptions;
use crate::door::{CHALLENGE, RequestGuard, RequestRefusal};

/// The check of each request.
#[derive(Debug)]
pub(crate) struct Front {
    door: RequestGuard,
    tool_version: &'static str,
}

impl Front {
    pub(crate) fn new(address: SocketAddr, options: &ServeOptions) -> Result<Front> {
        let door = RequestGuard::new(address, options).context("nobody could come in")?;
        Ok(Front { door, tool_version: options.tool_version })
    }

    /// Whether readers show a token; otherwise it matters which user they are.
    pub(crate) fn wants_token(&self) -> bool {
        self.token().is_some()
    }

    pub(crate) fn token(&self) -> Option<&str> {
        self.door.token()
    }

    /// Whether results are served for this user of the machine, who needs no token where none is wanted.
    pub(crate) fn serves(&self, user: Option<u32>) -> bool {
        self.door.serves(user)
    }
}

type Shared = State<Arc<Front>>;

/// Pages behind a door.
pub(crate) fn behind(front: Arc<Front>, pages: Router) -> Router {
    let login = Router::new().route("/login", get(ask_token)).with_state(front.clone());
    pages.merge(login).layer(from_fn_with_state(front, guarded))
}

/// Lets a request in or refuses it, and gives every answer the headers that protect it.
async fn guarded(State(front): Shared, request: Request, next: Next) -> Response {
    let mut user = None;
    if let Some(ConnectInfo(arrival)) = request.extensions().get::<ConnectInfo<Arrival>>() {
        arrival.note();
        user = arrival.user;
    }
    let is_free = request.uri().path() == "/login";
    let checked = front.door.check_user(user);
    let checked = checked.and_then(|()| front.door.check(request.method(), request.headers(), is_free));
    let mut response = match checked {
        Ok(()) => next.run(request).await,
        Err(RequestRefusal::Never(status, reason)) => (status, format!("pgdyno: {reason}\n")).into_response(),
        Err(RequestRefusal::Elsewhere(address)) => {
            let path = request.uri().path_and_query().map_or("/", |path| path.as_str());
            Redirect::temporary(&format!("{address}{path}")).into_response()
        }
        Err(RequestRefusal::NeedsToken) => {
            let mut response =
                (StatusCode::UNAUTHORIZED, answer(site::login(front.tool_version))).into_response();
            response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static(CHALLENGE));
            response
        }
    };
    let headers = response.headers_mut();
    for (name, value) in [
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        // With `no-referrer`, browsers do not say where a form comes from.
        (REFERRER_POLICY, "same-origin"),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
        (CACHE_CONTROL, "no-store"),
        (CONNECTION, "close"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    let none = HeaderValue::from_static("default-src 'none'; frame-ancestors 'none'");
    headers.entry(CONTENT_SECURITY_POLICY).or_insert(none);
    response
}

async fn ask_token(State(front): Shared) -> Response {
    answer(site::login(front.tool_version))
}
