//! A listener with bounds: on its connections, of which one more waits until another ends, on the time in which a request has
//! to come, and on the time in which an answer has to be taken.
//!
//! A connection carries one request: each answer ends it. Otherwise connections that browsers keep for later would take the
//! places of others.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::extract::connect_info::Connected;
use axum::serve::IncomingStream;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Sleep;

use super::front::Front;
use crate::door::is_loopback;
use crate::{ConnectionBounds, neighbour};

/// Pause after an error, as when the process has too many open files.
const PAUSE: Duration = Duration::from_millis(500);
/// Most connections of users of this machine for whom it is not served: they take no places of those for whom it is.
const REFUSED_MAX: usize = 8;
/// The same where they may show a token: their browsers take several.
const STRANGERS_MAX: usize = 16;
/// How long such a user has for a request, and to take the answer: long enough for a browser, which learns why.
const REFUSED_PATIENCE: Duration = Duration::from_secs(1);

pub(super) struct Bounded {
    listener: TcpListener,
    places: Arc<Semaphore>,
    /// The places of other users of this machine; one more is closed at once.
    places_of_others: Arc<Semaphore>,
    patience: ConnectionBounds,
    front: Arc<Front>,
}

impl Bounded {
    pub(super) fn new(listener: TcpListener, patience: ConnectionBounds, front: Arc<Front>) -> Bounded {
        let places = Arc::new(Semaphore::new(patience.connections_max));
        let n_others = if front.wants_token() { STRANGERS_MAX } else { REFUSED_MAX };
        let places_of_others = Arc::new(Semaphore::new(n_others.min(patience.connections_max)));
        Bounded { listener, places, places_of_others, patience, front }
    }

    /// The user of this machine at the other end, if it is one and the kernel names them.
    fn user_of(&self, stream: &TcpStream, from: SocketAddr) -> Option<u32> {
        let to = stream.local_addr().ok().filter(|to| is_loopback(to.ip()))?;
        neighbour::user_at(from, to)
    }

    async fn place_for(
        &self,
        user: Option<u32>,
        is_local: bool,
    ) -> Option<(OwnedSemaphorePermit, ConnectionBounds)> {
        if self.front.serves(user) || self.front.wants_token() && !is_local {
            let place = self.places.clone().acquire_owned().await.ok()?;
            return Some((place, self.patience));
        }
        let place = self.places_of_others.clone().try_acquire_owned().ok()?;
        let patience = if self.front.wants_token() {
            self.patience
        } else {
            ConnectionBounds { request: REFUSED_PATIENCE, stall: REFUSED_PATIENCE, ..self.patience }
        };
        Some((place, patience))
    }
}

impl axum::serve::Listener for Bounded {
    type Io = Connection;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Connection, SocketAddr) {
        loop {
            let Ok((stream, from)) = self.listener.accept().await else {
                tokio::time::sleep(PAUSE).await;
                continue;
            };
            // A point a second is no reason to wait for more.
            stream.set_nodelay(true).ok();
            // A machine that vanished says nothing.
            let stall_ms = u32::try_from(self.patience.stall.as_millis()).unwrap_or(u32::MAX);
            rustix::net::sockopt::set_tcp_user_timeout(&stream, stall_ms).ok();

            let user = self.user_of(&stream, from);
            if let Some((place, patience)) = self.place_for(user, is_loopback(from.ip())).await {
                return (Connection::new(stream, user, place, patience), from);
            }
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

/// Who sends the request of a connection, and whether its head has come.
#[derive(Debug, Clone, Default)]
pub(super) struct Arrival {
    has_come: Arc<AtomicBool>,
    /// The user of this machine, if it matters and is known.
    pub(super) user: Option<u32>,
}

impl Arrival {
    pub(super) fn note(&self) {
        self.has_come.store(true, Ordering::Relaxed);
    }
}

impl Connected<IncomingStream<'_, Bounded>> for Arrival {
    fn connect_info(stream: IncomingStream<'_, Bounded>) -> Arrival {
        stream.io().arrival.clone()
    }
}

/// A connection with its place among all.
pub(super) struct Connection {
    stream: TcpStream,
    _place: OwnedSemaphorePermit,
    patience: ConnectionBounds,
    arrival: Arrival,
    /// When the head of a request has to be there.
    due: Pin<Box<Sleep>>,
    /// When bytes have to be taken, while some wait.
    stall: Option<Pin<Box<Sleep>>>,
}

impl Connection {
    fn new(
        stream: TcpStream,
        user: Option<u32>,
        place: OwnedSemaphorePermit,
        patience: ConnectionBounds,
    ) -> Connection {
        let due = Box::pin(tokio::time::sleep(patience.request));
        let arrival = Arrival { user, ..Arrival::default() };
        Connection { stream, _place: place, patience, arrival, due, stall: None }
    }

    /// Bounds the time that something waits for the other side to take bytes.
    fn taken<T>(&mut self, cx: &mut Context, polled: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if polled.is_ready() {
            self.stall = None;
            return polled;
        }
        let limit = self.patience.stall;
        let stall = self.stall.get_or_insert_with(|| Box::pin(tokio::time::sleep(limit)));
        stall.as_mut().poll(cx).map(|()| Err(io::ErrorKind::TimedOut.into()))
    }
}

impl AsyncRead for Connection {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context, buf: &mut ReadBuf) -> Poll<io::Result<()>> {
        let has_arrived = self.arrival.has_come.load(Ordering::Relaxed);
        // Also between the bytes of somebody who sends one now and then.
        if !has_arrived && self.due.as_mut().poll(cx).is_ready() {
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl AsyncWrite for Connection {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.taken(cx, polled)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.stream).poll_flush(cx);
        self.taken(cx, polled)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
