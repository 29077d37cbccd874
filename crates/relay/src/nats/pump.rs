//! What both ends of a pipe do: number and send what is read here, check and write what arrives.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use async_nats::{Client, Subscriber};
use futures_util::StreamExt;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::MissedTickBehavior;

use super::frame::{CHUNK_BYTES, NumberCheck, Numbered, RelayMessage};

/// How often each end says that it is there.
const BEAT: Duration = Duration::from_secs(1);
/// How long an end may be silent before the other one gives up.
pub(crate) const SILENCE: Duration = Duration::from_secs(5);

/// How long the rest of a process's standard error is awaited after its output has ended.
const ERRORS_TIMEOUT: Duration = Duration::from_millis(500);

/// One end of a pipe.
pub(crate) struct End {
    pub(crate) client: Client,
    /// The subject of what is sent.
    pub(crate) to: String,
    /// The subscription to what the other end sends.
    pub(crate) from: Subscriber,
    pub(crate) numbered: Numbered,
    pub(crate) expected: NumberCheck,
}

impl End {
    pub(crate) async fn send(&mut self, frame: &RelayMessage) -> Result<()> {
        let message = self.numbered.encode(frame);
        self.client.publish(self.to.clone(), message.into()).await.context("cannot send")
    }

    /// Says why this end gives up, so that the other one need not wait for beats.
    pub(crate) async fn give_up(&mut self, error: &anyhow::Error) {
        let said = async {
            self.send(&RelayMessage::Refused(format!("{error:#}"))).await?;
            self.client.flush().await.context("cannot send the last message")
        };
        let _the_other_end_notices_our_silence_too = tokio::time::timeout(BEAT, said).await;
    }

    /// The next message, or `None` after `timeout`.
    pub(crate) async fn next(&mut self, timeout: Duration) -> Result<Option<RelayMessage>> {
        match tokio::time::timeout(timeout, self.from.next()).await {
            Ok(Some(message)) => {
                self.expected.decode(&message.payload).map(Some).map_err(|reason| anyhow!(reason))
            }
            Ok(None) => bail!("the subscription has ended"),
            Err(_) => Ok(None),
        }
    }

    /// Carries bytes in both directions until the output that `is_over` names has ended.
    ///
    /// # Errors
    /// If a message is missing, the other end is silent for [`SILENCE`], or a local pipe breaks.
    pub(crate) async fn pump(
        &mut self,
        mut local: Local<impl Read, impl Read, impl Write, impl Write>,
        is_over: Over,
    ) -> Result<()> {
        let (mut chunk, mut errors) = (vec![0; CHUNK_BYTES], vec![0; CHUNK_BYTES]);
        let mut beats = tokio::time::interval(BEAT);
        beats.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let (mut has_ended, mut errors_have_ended) = (false, false);
        let mut last_heard = Instant::now();
        loop {
            tokio::select! {
                read = local.input.read(&mut chunk), if !has_ended => {
                    let n = read.context("cannot read")?;
                    has_ended = n == 0;
                    let frame = if has_ended { RelayMessage::End } else { RelayMessage::Data(chunk[..n].to_vec()) };
                    // What it said last explains its end.
                    if has_ended && is_over == Over::WhenReadToTheEnd {
                        self.rest_of_errors(&mut local.errors, errors_have_ended).await?;
                        self.send(&frame).await?;
                        return self.client.flush().await.context("cannot send the last messages");
                    }
                    self.send(&frame).await?;
                }
                read = local.errors.read(&mut errors), if !errors_have_ended => {
                    let n = read.unwrap_or(0);
                    errors_have_ended = n == 0;
                    if n > 0 {
                        self.send(&RelayMessage::Errors(errors[..n].to_vec())).await?;
                    }
                }
                message = self.from.next() => {
                    let message = message.context("the subscription has ended")?;
                    last_heard = Instant::now();
                    match self.expected.decode(&message.payload).map_err(|reason| anyhow!(reason))? {
                        RelayMessage::Data(bytes) => local.write(&bytes).await?,
                        RelayMessage::Errors(bytes) => local.errors_out.write_all(&bytes).await.unwrap_or_default(),
                        RelayMessage::End => {
                            local.output = None;
                            if is_over == Over::WhenWrittenToTheEnd {
                                return Ok(());
                            }
                        }
                        RelayMessage::Beat | RelayMessage::Accepted => {}
                        RelayMessage::Refused(reason) => bail!("the other end gave up: {reason}"),
                        RelayMessage::Busy => bail!("it was busy in the middle"),
                    }
                }
                _ = beats.tick() => {
                    self.send(&RelayMessage::Beat).await?;
                    let silent = last_heard.elapsed();
                    if silent > SILENCE {
                        bail!("nothing was heard for {} s", silent.as_secs());
                    }
                }
            }
        }
    }

    async fn rest_of_errors(&mut self, errors: &mut impl Read, have_ended: bool) -> Result<()> {
        let mut rest = vec![0; CHUNK_BYTES];
        // A command that the process started may keep it open.
        while !have_ended
            && let Ok(Ok(n @ 1..)) = tokio::time::timeout(ERRORS_TIMEOUT, errors.read(&mut rest)).await
        {
            self.send(&RelayMessage::Errors(rest[..n].to_vec())).await?;
        }
        Ok(())
    }
}

/// The local side of an end. The caller's standard streams, or those of a process.
pub(crate) struct Local<R, E, W, X> {
    pub(crate) input: R,
    /// A process's standard error.
    pub(crate) errors: E,
    /// `None` once the other end has ended it.
    pub(crate) output: Option<W>,
    /// Where the other end's standard error goes.
    pub(crate) errors_out: X,
}

impl<R, E, W: Write, X> Local<R, E, W, X> {
    async fn write(&mut self, bytes: &[u8]) -> Result<()> {
        let Some(output) = &mut self.output else { bail!("bytes came after the end") };
        output.write_all(bytes).await.context("cannot write")?;
        output.flush().await.context("cannot write")
    }
}

/// When a pipe is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Over {
    /// The process has closed its output.
    WhenReadToTheEnd,
    /// The other end's process has closed its output.
    WhenWrittenToTheEnd,
}

pub(crate) trait Read: AsyncRead + Unpin {}
impl<T: AsyncRead + Unpin> Read for T {}

pub(crate) trait Write: AsyncWrite + Unpin {}
impl<T: AsyncWrite + Unpin> Write for T {}
