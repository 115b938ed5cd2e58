//! One end of a TLS connection: bytes of the network in, bytes of the application out, and back.

use super::alert::Alert;
use super::client::ClientHandshake;
use super::flow::TlsFlowState;
use super::hello::{kind, message};
use super::record::{ContentType, HEADER_BYTES, PLAIN_BYTES_MAX, append_unencrypted_records, first};
use super::server::ServerHandshake;
use crate::front::nvme_tcp::authentication::keys::Psk;

/// Length in bytes of a handshake message at most.
const MESSAGE_BYTES_MAX: usize = 1 << 14;
/// Level and code of the alert by which one side ends the connection.
const CLOSE_NOTIFY: [u8; 2] = [1, 0];
/// Level of an alert that ends the connection at once.
const FATAL: u8 = 2;

/// Handshake of one of the sides.
#[derive(Debug)]
enum TlsHandshake {
    Server(ServerHandshake),
    Client(ClientHandshake),
}

/// One end of a TLS connection, without a socket.
#[derive(Debug)]
pub struct TlsChannel {
    flow: TlsFlowState,
    handshake: TlsHandshake,
    /// Bytes of the network that are no complete record yet.
    incoming: Vec<u8>,
    /// Bytes of records that are no complete handshake message yet.
    messages: Vec<u8>,
    plaintext: Vec<u8>,
    is_closed: bool,
}

impl TlsChannel {
    /// Returns the server's end. The client chooses one of the pre-shared keys.
    pub fn server(psks: Vec<Psk>, random: fn(&mut [u8])) -> TlsChannel {
        TlsChannel::new(TlsHandshake::Server(ServerHandshake::new(psks)), random)
    }

    /// Returns the client's end, with the first bytes for the network. The server chooses one of the pre-shared keys.
    pub fn client(psks: Vec<Psk>, random: fn(&mut [u8])) -> TlsChannel {
        let mut channel = TlsChannel::new(TlsHandshake::Client(ClientHandshake::new(psks)), random);
        if let TlsHandshake::Client(client) = &mut channel.handshake {
            client.start(&mut channel.flow);
        }
        channel
    }

    fn new(handshake: TlsHandshake, random: fn(&mut [u8])) -> TlsChannel {
        let flow = TlsFlowState { outgoing: Vec::new(), transcript: Vec::new(), reader: None, writer: None, random };
        let (incoming, messages, plaintext) = (Vec::new(), Vec::new(), Vec::new());
        TlsChannel { flow, handshake, incoming, messages, plaintext, is_closed: false }
    }

    /// Returns the identity of the pre-shared key that both sides have proved to know; none before the handshake has ended.
    pub fn identity(&self) -> Option<&str> {
        match &self.handshake {
            TlsHandshake::Server(server) => server.identity(),
            TlsHandshake::Client(client) => client.identity(),
        }
    }

    /// Returns true if the other side has ended the connection in good order.
    pub fn is_closed(&self) -> bool {
        self.is_closed
    }

    /// Returns the bytes for the network, which the caller takes out.
    pub fn outgoing(&mut self) -> &mut Vec<u8> {
        &mut self.flow.outgoing
    }

    /// Returns the bytes for the application, which the caller takes out.
    pub fn plaintext(&mut self) -> &mut Vec<u8> {
        &mut self.plaintext
    }

    /// Encrypts bytes of the application.
    ///
    /// # Panics
    /// Before the handshake has ended.
    pub fn send(&mut self, data: &[u8]) {
        assert!(self.identity().is_some(), "data is sent after the handshake");
        let TlsFlowState { writer: Some(writer), outgoing, .. } = &mut self.flow else { return };
        for part in data.chunks(PLAIN_BYTES_MAX) {
            if writer.has_reached_record_limit() {
                writer.seal(ContentType::Handshake, &message(kind::KEY_UPDATE, &[0]), outgoing);
                writer.update();
            }
            writer.seal(ContentType::ApplicationData, part, outgoing);
        }
    }

    /// Replaces the key of this side, and asks the other side to replace its own.
    #[cfg(test)]
    pub(super) fn replace_own_key_and_request_peer_key(&mut self) {
        let TlsFlowState { writer: Some(writer), outgoing, .. } = &mut self.flow else { return };
        writer.seal(ContentType::Handshake, &message(kind::KEY_UPDATE, &[1]), outgoing);
        writer.update();
    }

    /// Says that no more bytes of the application follow.
    pub fn close(&mut self) {
        self.send_alert(&CLOSE_NOTIFY);
    }

    /// Takes bytes of the network. After an error, the alert for the other side is among the bytes for the network, and the
    /// connection has to be closed.
    ///
    /// # Errors
    /// If the other side breaks the protocol, does not know the key, or has ended the connection with an alert.
    pub fn receive(&mut self, bytes: &[u8]) -> Result<(), Alert> {
        let mut incoming = std::mem::take(&mut self.incoming);
        incoming.extend(bytes);
        let mut start = 0;
        let received = loop {
            match self.receive_record(&mut incoming[start..]) {
                Ok(Some(length)) => start += length,
                Ok(None) => break Ok(()),
                Err(alert) => break Err(alert),
            }
        };
        incoming.drain(..start);
        self.incoming = incoming;
        if let Err(Some(code)) = received.map_err(Alert::code) {
            self.send_alert(&[FATAL, code]);
        }
        received
    }

    fn send_alert(&mut self, alert: &[u8]) {
        let TlsFlowState { writer, outgoing, .. } = &mut self.flow;
        match writer {
            Some(writer) => writer.seal(ContentType::Alert, alert, outgoing),
            None => append_unencrypted_records(ContentType::Alert, alert, outgoing),
        }
    }

    /// Handles the first record, if it is complete, and returns its length.
    fn receive_record(&mut self, bytes: &mut [u8]) -> Result<Option<usize>, Alert> {
        let Some((kind, length)) = first(bytes, self.flow.reader.is_some())? else { return Ok(None) };
        let Some(record) = bytes.get_mut(..HEADER_BYTES + length) else { return Ok(None) };
        if self.is_closed {
            return Err(Alert::UnexpectedMessage);
        }
        let is_established = self.identity().is_some();
        if kind == ContentType::ChangeCipherSpec {
            // Both sides send this record only for middleboxes (RFC 8446, appendix D.4), so ignore it.
            let is_fair = !is_established && record[HEADER_BYTES..] == [1];
            return if is_fair { Ok(Some(record.len())) } else { Err(Alert::UnexpectedMessage) };
        }
        let (kind, length) = match &mut self.flow.reader {
            // Until the peer has keys, an alert may arrive unencrypted.
            Some(_) if kind == ContentType::Alert && !is_established => (kind, length),
            Some(_) if kind != ContentType::ApplicationData => return Err(Alert::UnexpectedMessage),
            Some(reader) => reader.open(record)?,
            None => (kind, length),
        };
        let data = &record[HEADER_BYTES..HEADER_BYTES + length];
        match kind {
            ContentType::ApplicationData if is_established && self.messages.is_empty() => {
                self.plaintext.extend(data);
            }
            ContentType::Handshake if !data.is_empty() => {
                let data = data.to_vec();
                self.receive_handshake_messages(&data)?;
            }
            ContentType::Alert => self.receive_alert(data)?,
            _ => return Err(Alert::UnexpectedMessage),
        }
        Ok(Some(record.len()))
    }

    fn receive_alert(&mut self, data: &[u8]) -> Result<(), Alert> {
        match data {
            [_, 0] => self.is_closed = true,
            [_, code] => return Err(Alert::Peer(*code)),
            _ => return Err(Alert::DecodeError),
        }
        Ok(())
    }

    fn receive_handshake_messages(&mut self, data: &[u8]) -> Result<(), Alert> {
        self.messages.extend(data);
        while let Some([_, length @ ..]) = self.messages.first_chunk::<4>() {
            let [high, middle, low] = *length;
            let length = phaselink_core::number::index(u32::from_be_bytes([0, high, middle, low]));
            if length > MESSAGE_BYTES_MAX {
                return Err(Alert::DecodeError);
            }
            if self.messages.len() < 4 + length {
                break;
            }
            let rest = self.messages.split_off(4 + length);
            let message = std::mem::replace(&mut self.messages, rest);
            let keys = self.flow.reader.as_ref().map(|reader| reader.secret().to_vec());
            self.process_handshake_message(&message)?;
            // A handshake message must not continue across a change of keys.
            let is_changed = keys.as_deref() != self.flow.reader.as_ref().map(|reader| &reader.secret()[..]);
            if is_changed && !self.messages.is_empty() {
                return Err(Alert::UnexpectedMessage);
            }
        }
        Ok(())
    }

    fn process_handshake_message(&mut self, message: &[u8]) -> Result<(), Alert> {
        if self.identity().is_some() {
            return self.process_post_handshake_message(message);
        }
        match &mut self.handshake {
            TlsHandshake::Server(server) => server.receive(message, &mut self.flow),
            TlsHandshake::Client(client) => client.receive(message, &mut self.flow),
        }
    }

    /// Handles a message that arrives after the handshake: a session ticket or a key update.
    fn process_post_handshake_message(&mut self, received: &[u8]) -> Result<(), Alert> {
        let TlsFlowState { reader: Some(reader), writer: Some(writer), outgoing, .. } = &mut self.flow else {
            return Ok(());
        };
        match (received[0], &received[4..]) {
            // Session resumption is not supported, so ignore tickets: each connection has the pre-shared key.
            (kind::NEW_SESSION_TICKET, _) if matches!(self.handshake, TlsHandshake::Client(_)) => Ok(()),
            (kind::KEY_UPDATE, [requested @ (0 | 1)]) => {
                reader.update();
                if *requested == 1 {
                    writer.seal(ContentType::Handshake, &message(kind::KEY_UPDATE, &[0]), outgoing);
                    writer.update();
                }
                Ok(())
            }
            (kind::KEY_UPDATE, [_]) => Err(Alert::IllegalParameter),
            (kind::KEY_UPDATE, _) => Err(Alert::DecodeError),
            _ => Err(Alert::UnexpectedMessage),
        }
    }
}
