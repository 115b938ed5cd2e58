//! Server's side of the NBD handshake, without I/O: bytes of the client in, replies out.
//!
//! A client that keeps to the protocol gets a reply to every option, known or not. One that breaks it is disconnected.

use super::export::Export;
use super::wire::{self, NbdParseResult, OptionHeader, allocation, handshake, info, option, reply, transmission};
use phaselink_core::number::{index, short_length};

/// Message that the handshake expects next from the client.
#[derive(Clone, Debug, PartialEq, Eq)]
enum State {
    ClientFlags,
    Options,
    /// Rest of an option whose data is too long to be read, and is skipped.
    Skip {
        option: u32,
        bytes_left: u32,
    },
}

/// Handshake of one client, from the server's greeting to the choice of an export.
#[derive(Clone, Debug)]
pub struct Handshake {
    state: State,
    no_zeroes: bool,
    structured: bool,
    /// Name of the export for which the client has chosen the metadata context `base:allocation`; none if it has not.
    allocation_of: Option<Vec<u8>>,
    /// Reason for which the client is refused every export; none if it is not refused.
    refusal: Option<&'static str>,
}

/// Progress of a handshake after the bytes that have been received.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Progress {
    /// The handshake needs more bytes.
    More,
    /// The handshake is over: the client has chosen an export, and sends requests next.
    Transmission {
        /// True if reads are answered with structured replies, false if with simple ones.
        structured: bool,
        /// True if the client has chosen the metadata context `base:allocation`, and may ask for block status.
        has_allocation: bool,
    },
    /// The connection must be closed. The text is the reason; none if the client ends the handshake itself.
    Closed(Option<&'static str>),
}

impl Handshake {
    /// Begins a handshake, and adds the server's greeting to `output`.
    pub fn begin(output: &mut Vec<u8>) -> Handshake {
        output.extend(wire::greeting());
        Handshake { state: State::ClientFlags, no_zeroes: false, structured: false, allocation_of: None, refusal: None }
    }

    /// Lets the handshake refuse every export to the client, which is told `reason`.
    pub fn refuse(&mut self, reason: &'static str) {
        self.refusal = Some(reason);
    }

    /// Processes all complete messages in `input`, and adds the replies to `output`. Returns the number of bytes used,
    /// and the progress of the handshake.
    pub fn advance(&mut self, input: &[u8], export: &Export, output: &mut Vec<u8>) -> (usize, Progress) {
        let mut used = 0;
        loop {
            match self.step(&input[used..], export, output) {
                (0, Progress::More) => return (used, Progress::More),
                (taken, Progress::More) => used += taken,
                (taken, other) => return (used + taken, other),
            }
        }
    }

    /// Processes one message of `input`, and adds the reply to `output`. Returns the number of bytes used, zero if the
    /// message is incomplete, and the progress.
    fn step(&mut self, input: &[u8], export: &Export, output: &mut Vec<u8>) -> (usize, Progress) {
        match self.state {
            State::ClientFlags => self.process_client_flags(input),
            State::Options => self.process_handshake_option(input, export, output),
            State::Skip { option, bytes_left } => {
                let taken = input.len().min(index(bytes_left));
                self.state = State::Skip { option, bytes_left: bytes_left - taken as u32 };
                if taken == index(bytes_left) {
                    wire::append_option_reply(output, option, reply::TOO_BIG, b"");
                    self.state = State::Options;
                }
                (taken, Progress::More)
            }
        }
    }

    fn process_client_flags(&mut self, input: &[u8]) -> (usize, Progress) {
        match wire::parse_client_flags(input) {
            NbdParseResult::Needs(_) => (0, Progress::More),
            NbdParseResult::Broken(found) => (0, Progress::Closed(Some(found))),
            NbdParseResult::Whole(flags, bytes) => {
                self.no_zeroes = flags & u32::from(handshake::NO_ZEROES) != 0;
                self.state = State::Options;
                (bytes, Progress::More)
            }
        }
    }

    /// Processes one option at the start of `input`. Returns the number of bytes consumed and the progress.
    fn process_handshake_option(&mut self, input: &[u8], export: &Export, output: &mut Vec<u8>) -> (usize, Progress) {
        let (header, head_bytes) = match wire::parse_option_header(input) {
            NbdParseResult::Needs(_) => return (0, Progress::More),
            NbdParseResult::Broken(found) => return (0, Progress::Closed(Some(found))),
            NbdParseResult::Whole(header, bytes) => (header, bytes),
        };
        if header.length > wire::OPTION_BYTES_MAX {
            self.state = State::Skip { option: header.option, bytes_left: header.length };
            return (head_bytes, Progress::More);
        }
        let end = head_bytes + index(header.length);
        match input.get(head_bytes..end) {
            None => (0, Progress::More),
            Some(data) => (end, self.answer(header, data, export, output)),
        }
    }

    fn answer(&mut self, header: OptionHeader, data: &[u8], export: &Export, output: &mut Vec<u8>) -> Progress {
        let OptionHeader { option, .. } = header;
        if let Some(reason) = self.refusal.filter(|_| matches!(option, option::EXPORT_NAME | option::INFO | option::GO))
        {
            // The reply to NBD_OPT_EXPORT_NAME has no field for an error message.
            if option != option::EXPORT_NAME {
                wire::append_option_reply(output, option, reply::POLICY, reason.as_bytes());
            }
            return Progress::Closed(Some(reason));
        }
        match option {
            option::EXPORT_NAME => return self.reply_to_export_name(data, export, output),
            option::ABORT => {
                wire::append_option_reply(output, option, reply::ACK, b"");
                return Progress::Closed(None);
            }
            option::LIST if data.is_empty() => write_export_list(export, output),
            option::STRUCTURED_REPLY if !export.structured_replies => {
                wire::append_option_reply(output, option, reply::UNSUPPORTED, b"");
            }
            option::STRUCTURED_REPLY if data.is_empty() => {
                self.structured = true;
                wire::append_option_reply(output, option, reply::ACK, b"");
            }
            option::LIST_META_CONTEXT | option::SET_META_CONTEXT if export.structured_replies => {
                self.reply_to_meta_contexts(option, data, export, output);
            }
            option::LIST | option::STRUCTURED_REPLY => wire::append_option_reply(output, option, reply::INVALID, b""),
            option::INFO | option::GO => return self.reply_to_info_or_go(option, data, export, output),
            _ => wire::append_option_reply(output, option, reply::UNSUPPORTED, b""),
        }
        Progress::More
    }

    /// Replies to NBD_OPT_EXPORT_NAME, the oldest option that chooses an export. It has no error reply, so that a wrong
    /// name closes the connection.
    fn reply_to_export_name(&mut self, name: &[u8], export: &Export, output: &mut Vec<u8>) -> Progress {
        if !export.matches_requested_name(name) {
            return Progress::Closed(Some("the name of no export"));
        }
        output.extend(export.geometry.capacity_bytes.to_be_bytes());
        output.extend(self.flags().to_be_bytes());
        if !self.no_zeroes {
            output.extend([0; 124]);
        }
        self.transmission(name)
    }

    /// Returns the progress that ends the handshake with the export `name`. A metadata context holds only for the name
    /// for which it was chosen.
    fn transmission(&self, name: &[u8]) -> Progress {
        let has_allocation = self.allocation_of.as_deref() == Some(name);
        Progress::Transmission { structured: self.structured, has_allocation }
    }

    /// Replies to an option that lists or chooses metadata contexts with those that match its queries, and keeps the
    /// choice.
    fn reply_to_meta_contexts(&mut self, option: u32, data: &[u8], export: &Export, output: &mut Vec<u8>) {
        let is_choice = option == option::SET_META_CONTEXT;
        if is_choice {
            self.allocation_of = None;
        }
        let (mut is_known, mut queries) = (false, 0);
        let parsed = wire::parse_meta_context_queries(data, |query| {
            is_known |= query == allocation::NAME || query == allocation::NAMESPACE && !is_choice;
            queries += 1;
        });
        let Some(name) = parsed.filter(|_| self.structured) else {
            return wire::append_option_reply(output, option, reply::INVALID, b"");
        };
        if !export.matches_requested_name(name) {
            return wire::append_option_reply(output, option, reply::UNKNOWN, b"there is no such export");
        }
        // A list request without queries asks for all contexts.
        if is_known || queries == 0 && !is_choice {
            let id = if is_choice { allocation::ID } else { 0 };
            wire::append_option_reply(
                output,
                option,
                reply::META_CONTEXT,
                &[&id.to_be_bytes()[..], allocation::NAME].concat(),
            );
            self.allocation_of = is_choice.then(|| name.to_vec()).or(self.allocation_of.take());
        }
        wire::append_option_reply(output, option, reply::ACK, b"");
    }

    /// Replies to the option INFO or GO with size and block sizes of the export. After GO, the handshake ends.
    fn reply_to_info_or_go(&mut self, option: u32, data: &[u8], export: &Export, output: &mut Vec<u8>) -> Progress {
        let Some(name) = wire::parse_info_export_name(data) else {
            wire::append_option_reply(output, option, reply::INVALID, b"");
            return Progress::More;
        };
        if !export.matches_requested_name(name) {
            wire::append_option_reply(output, option, reply::UNKNOWN, b"there is no such export");
            return Progress::More;
        }
        let mut export_info = Vec::from(info::EXPORT.to_be_bytes());
        export_info.extend(export.geometry.capacity_bytes.to_be_bytes());
        export_info.extend(self.flags().to_be_bytes());
        wire::append_option_reply(output, option, reply::INFO, &export_info);
        // The server may send this block size without a request, and clients that read it respect it (NBD protocol,
        // "Block size constraints").
        let mut sizes = Vec::from(info::BLOCK_SIZE.to_be_bytes());
        let preferred = export.geometry.block_bytes.max(PREFERRED_BYTES);
        for bytes in [export.geometry.block_bytes, preferred, wire::PAYLOAD_BYTES_MAX] {
            sizes.extend(bytes.to_be_bytes());
        }
        wire::append_option_reply(output, option, reply::INFO, &sizes);
        wire::append_option_reply(output, option, reply::ACK, b"");
        match option {
            option::GO => self.transmission(name),
            _ => Progress::More,
        }
    }

    /// Returns the transmission flags of the export. All connections share one store, so that a flush on one covers the
    /// writes of all (NBD_FLAG_CAN_MULTI_CONN).
    fn flags(&self) -> u16 {
        use transmission::*;
        let fragments = if self.structured { SEND_DF } else { 0 };
        HAS_FLAGS | SEND_FLUSH | SEND_FUA | SEND_TRIM | SEND_WRITE_ZEROES | CAN_MULTI_CONN | fragments
    }
}

/// Preferred size of a request that clients are told, in bytes, unless the block is larger: the page size of hosts.
const PREFERRED_BYTES: u32 = 4096;

fn write_export_list(export: &Export, output: &mut Vec<u8>) {
    let mut data = Vec::from(short_length(export.name.len()).to_be_bytes());
    data.extend(export.name.as_bytes());
    wire::append_option_reply(output, option::LIST, reply::SERVER, &data);
    wire::append_option_reply(output, option::LIST, reply::ACK, b"");
}
