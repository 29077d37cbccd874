//! The messages of a pipe: a kind, a number without gaps, and bytes.

/// Bytes of input or output in one message: far below a server's usual limit of 1 MiB.
pub(crate) const CHUNK_BYTES: usize = 64 << 10;
/// Kind and number.
const HEADER_BYTES: usize = 9;

/// The content of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum RelayMessage {
    /// The agent has started the process.
    Accepted,
    /// The sender starts no process, or gives up, for this reason.
    Refused(String),
    /// The agent drives for somebody else.
    Busy,
    /// Bytes of standard input or output.
    Data(Vec<u8>),
    /// Bytes that the process wrote to standard error.
    Errors(Vec<u8>),
    /// The input or output has ended.
    End,
    /// The sender is there. It repeats the next number, so that a lost message is noticed although nothing follows it.
    Beat,
}

impl RelayMessage {
    fn kind(&self) -> u8 {
        match self {
            RelayMessage::Accepted => b'A',
            RelayMessage::Refused(_) => b'R',
            RelayMessage::Busy => b'Y',
            RelayMessage::Data(_) => b'D',
            RelayMessage::Errors(_) => b'X',
            RelayMessage::End => b'E',
            RelayMessage::Beat => b'B',
        }
    }

    fn bytes(&self) -> &[u8] {
        match self {
            RelayMessage::Refused(reason) => reason.as_bytes(),
            RelayMessage::Data(bytes) | RelayMessage::Errors(bytes) => bytes,
            RelayMessage::Accepted | RelayMessage::Busy | RelayMessage::End | RelayMessage::Beat => &[],
        }
    }

    fn from_bytes(kind: u8, bytes: &[u8]) -> Option<RelayMessage> {
        Some(match kind {
            b'A' => RelayMessage::Accepted,
            b'R' => {
                RelayMessage::Refused(String::from_utf8_lossy(&bytes[..bytes.len().min(1000)]).into_owned())
            }
            b'Y' => RelayMessage::Busy,
            b'D' => RelayMessage::Data(bytes.to_vec()),
            b'X' => RelayMessage::Errors(bytes.to_vec()),
            b'E' => RelayMessage::End,
            b'B' => RelayMessage::Beat,
            _ => return None,
        })
    }
}

/// Numbers the messages that one side sends.
#[derive(Debug, Default)]
pub(crate) struct Numbered {
    next: u64,
}

impl Numbered {
    pub(crate) fn encode(&mut self, frame: &RelayMessage) -> Vec<u8> {
        let bytes = frame.bytes();
        let mut message = Vec::with_capacity(HEADER_BYTES + bytes.len());
        message.push(frame.kind());
        message.extend(self.next.to_be_bytes());
        message.extend(bytes);
        if *frame != RelayMessage::Beat {
            self.next += 1;
        }
        message
    }
}

/// Checks the numbers of the messages that one side gets.
#[derive(Debug, Default)]
pub(crate) struct NumberCheck {
    next: u64,
}

impl NumberCheck {
    /// # Errors
    /// Says what is wrong with the message, or how many are missing before it.
    pub(crate) fn decode(&mut self, message: &[u8]) -> Result<RelayMessage, String> {
        let split = message.split_first_chunk::<HEADER_BYTES>();
        let (header, bytes) =
            split.filter(|_| message.len() <= HEADER_BYTES + CHUNK_BYTES).ok_or_else(|| {
                format!("a message of {} bytes came, which no pgdyno of this build sends", message.len())
            })?;
        let [kind, number @ ..] = *header;
        let number = u64::from_be_bytes(number);
        let frame = RelayMessage::from_bytes(kind, bytes)
            .ok_or_else(|| format!("a message of the unknown kind {kind} came: another build of pgdyno?"))?;
        match number.checked_sub(self.next) {
            Some(0) => {}
            Some(n) => return Err(format!("{n} messages were lost on the way")),
            None => return Err("a message came twice: do two agents have one name?".to_string()),
        }
        if frame != RelayMessage::Beat {
            self.next += 1;
        }
        Ok(frame)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_sent_arrives_and_beats_take_no_number() {
        let (mut numbered, mut expected) = (Numbered::default(), NumberCheck::default());
        let frames = [
            RelayMessage::Accepted,
            RelayMessage::Beat,
            RelayMessage::Data(vec![0, 255, 10]),
            RelayMessage::Errors(b"no".to_vec()),
            RelayMessage::Beat,
            RelayMessage::Refused("busy".into()),
            RelayMessage::Busy,
            RelayMessage::End,
        ];
        for frame in frames {
            assert_eq!(expected.decode(&numbered.encode(&frame)), Ok(frame));
        }
    }

    #[test]
    fn a_lost_message_is_noticed_by_the_next_one_or_by_a_beat() {
        for next in [RelayMessage::Data(vec![1]), RelayMessage::Beat] {
            let (mut numbered, mut expected) = (Numbered::default(), NumberCheck::default());
            let first = numbered.encode(&RelayMessage::Data(vec![0]));
            numbered.encode(&RelayMessage::Data(vec![2]));
            expected.decode(&first).unwrap();
            let error = expected.decode(&numbered.encode(&next)).unwrap_err();
            assert_eq!(error, "1 messages were lost on the way");
        }
    }

    #[test]
    fn what_nobody_of_us_sends_is_refused() {
        let too_long = [&[b'D'; HEADER_BYTES][..], &vec![0; CHUNK_BYTES + 1]].concat();
        for (message, expected) in [
            (&b""[..], "of 0 bytes"),
            (b"D1234567", "of 8 bytes"),
            (b"Z\0\0\0\0\0\0\0\0", "kind 90"),
            (&too_long, "bytes came"),
        ] {
            let error = NumberCheck::default().decode(message).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
        let mut expected = NumberCheck::default();
        let message = Numbered::default().encode(&RelayMessage::Accepted);
        expected.decode(&message).unwrap();
        assert!(expected.decode(&message).unwrap_err().contains("twice"));
    }
}
