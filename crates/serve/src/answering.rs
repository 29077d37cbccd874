//! The other end of [`Elsewhere`](crate::Elsewhere): answers what a server on another machine asks for, over a pipe that the caller has.
//!
//! Requests come from a user who may read the directory, whose own server has checked them.

use std::collections::HashMap;
use std::sync::Arc;

use anyhow::{Context, Result};
use axum::body::Body;
use axum::extract::Request;
use axum::handler::Handler;
use axum::http::header::{CONTENT_SECURITY_POLICY, CONTENT_TYPE, LOCATION};
use axum::http::{HeaderName, Method};
use axum::response::Response;
use axum::routing::{MethodRouter, any_service};
use futures_util::StreamExt;
use model::load::pages::{
    ANSWERS_MAX, AnswerPart, PIECE_BYTES_MAX, PIECES_MAX, PageRequest, PagesCommand, PagesLine,
};
use tokio::sync::{Semaphore, mpsc};
use tokio::task::AbortHandle;

use crate::pages::{self, PageSources};
use crate::{Makers, ServeOptions};

/// Takes lines for the other machine.
pub type Say = Arc<dyn Fn(PagesLine) + Send + Sync>;

/// Answers in a thread of its own until it is dropped.
#[derive(Debug)]
pub struct Answering {
    commands: mpsc::UnboundedSender<PagesCommand>,
}

impl Answering {
    /// Begins to answer for a directory.
    ///
    /// # Errors
    /// When the directory cannot be read.
    pub fn start(options: ServeOptions, makers: Makers, say: Say) -> Result<Answering> {
        let site = Arc::new(PageSources::new(options, makers)?);
        let pages = any_service(pages::routes(site));
        let (commands, asked) = mpsc::unbounded_channel();
        let runtime = crate::runtime()?;
        let body = move || {
            crate::step_back();
            runtime.block_on(carry_out(asked, pages, say));
            runtime.shutdown_background();
        };
        std::thread::Builder::new()
            .name("pages".to_string())
            .spawn(body)
            .context("cannot start the thread that answers")?;
        Ok(Answering { commands })
    }

    /// Takes a command of the other machine.
    pub fn carry_out(&self, command: PagesCommand) {
        // The thread ends with this alone.
        self.commands.send(command).unwrap_or_default();
    }
}

/// An answer that is under way.
struct UnderWay {
    /// Pieces that may be sent before one is taken.
    room: Arc<Semaphore>,
    task: AbortHandle,
}

async fn carry_out(mut asked: mpsc::UnboundedReceiver<PagesCommand>, pages: MethodRouter, say: Say) {
    let mut under_way: HashMap<u64, UnderWay> = HashMap::new();
    while let Some(command) = asked.recv().await {
        match command {
            PagesCommand::Ask(asked) => {
                under_way.retain(|_, one| !one.task.is_finished());
                let id = asked.id;
                if under_way.len() >= ANSWERS_MAX {
                    let reason = "too many pages are asked for".to_string();
                    say(PagesLine::Part { id, part: AnswerPart::Lost(reason) });
                    continue;
                }
                let room = Arc::new(Semaphore::new(PIECES_MAX));
                let task = tokio::spawn(answer(asked, pages.clone(), room.clone(), say.clone()));
                under_way.insert(id, UnderWay { room, task: task.abort_handle() });
            }
            PagesCommand::Took(id) => {
                let room = under_way.get(&id).map(|one| &one.room);
                if let Some(room) = room.filter(|room| room.available_permits() < PIECES_MAX) {
                    room.add_permits(1);
                }
            }
            PagesCommand::Leave(id) => {
                if let Some(one) = under_way.remove(&id) {
                    one.task.abort();
                }
            }
            PagesCommand::Ping(_) => {}
        }
    }
}

async fn answer(asked: PageRequest, pages: MethodRouter, room: Arc<Semaphore>, say: Say) {
    let id = asked.id;
    let tell = |part| say(PagesLine::Part { id, part });
    let Some(request) = request(&asked) else {
        tell(AnswerPart::Lost("the address cannot be read".to_string()));
        return;
    };
    let response = Handler::call(pages, request, ()).await;
    tell(head(&response));
    let mut body = response.into_body().into_data_stream();
    while let Some(chunk) = body.next().await {
        let Ok(chunk) = chunk else {
            tell(AnswerPart::Lost("the answer broke off".to_string()));
            return;
        };
        for piece in pieces(&String::from_utf8_lossy(&chunk)) {
            match room.acquire().await {
                Ok(permit) => permit.forget(),
                Err(_) => return,
            }
            tell(AnswerPart::Piece(piece.to_string()));
        }
    }
    tell(AnswerPart::End);
}

fn request(asked: &PageRequest) -> Option<Request> {
    let method = if asked.is_post { Method::POST } else { Method::GET };
    let mut request = Request::builder().method(method).uri(&asked.address);
    if let Some(id) = &asked.last_event {
        request = request.header("last-event-id", id);
    }
    request.body(Body::empty()).ok()
}

fn head(response: &Response) -> AnswerPart {
    let value = |name: HeaderName| {
        let value = response.headers().get(&name)?.to_str().ok()?;
        Some((name.to_string(), value.to_string()))
    };
    let headers = [CONTENT_TYPE, CONTENT_SECURITY_POLICY, LOCATION].into_iter().filter_map(value).collect();
    AnswerPart::Head { status: response.status().as_u16(), headers }
}

/// A text in pieces that are not too long, none of which ends within a character.
fn pieces(mut text: &str) -> impl Iterator<Item = &str> {
    std::iter::from_fn(move || {
        let mut end = text.len().min(PIECE_BYTES_MAX);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        let (piece, rest) = text.split_at(end);
        text = rest;
        (!piece.is_empty()).then_some(piece)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_short_and_whole() {
        let text = "ü".repeat(PIECE_BYTES_MAX);
        let text = format!("x{text}");
        let all: Vec<&str> = pieces(&text).collect();
        assert_eq!(all.concat(), text);
        assert!(all.iter().all(|piece| piece.len() <= PIECE_BYTES_MAX) && all.len() == 3, "{}", all.len());
        assert_eq!(pieces("").count(), 0);
    }
}
