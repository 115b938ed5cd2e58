//! Files: what is written can be read, and lines that cannot be read are named.

use super::{generated, plan};
use crate::kvcache::formats::{TokenTrace, TokenTraceFormat};
use crate::kvcache::generate::PromptMix;
use phaselink_core::workload::trace::File;

fn open(bytes: &[u8]) -> Result<TokenTrace, String> {
    TokenTrace::open(File::in_memory("t", bytes), None, None).map_err(|problems| problems.to_string())
}

#[test]
fn written_prompt_trace_reads_back_unchanged() {
    for format in [TokenTraceFormat::Mooncake, TokenTraceFormat::Bailian] {
        let trace = generated(PromptMix::Conversation, 30.0, format.block_tokens());
        let model = plan(16, [0; 3]).model;
        let written: Vec<u8> = trace.requests().flat_map(|it| format.encode_request(&it, &model, 16)).collect();
        let read = open(&written).unwrap();
        let first_ns = trace.requests().next().unwrap().at_ns;
        assert_eq!((read.format, read.requests), (format, trace.requests().count() as u64));
        for (read, made) in read.requests().zip(trace.requests()) {
            let read = read.unwrap();
            assert_eq!(
                (read.at_ns, read.input_tokens, read.output_tokens),
                (made.at_ns - first_ns, made.input_tokens, made.output_tokens)
            );
            assert_eq!(read.ids, made.ids);
            assert!(format == TokenTraceFormat::Mooncake || read.turn == made.turn);
        }
    }
}

#[test]
fn invalid_trace_line_is_reported_with_number_and_expected_form() {
    let mooncake = "{\"timestamp\": 0, \"input_length\": 600, \"output_length\": 5, \"hash_ids\": [1, 2]}\n";
    let cases: [(&str, &[&str]); 7] = [
        (
            "{\"timestamp\": 1, \"input_length\": 18446744073709551615, \"output_length\": 5, \"hash_ids\": [1]}\n",
            &["t:2: 18446744073709551615 tokens; allowed: at most 4294967296"],
        ),
        ("{\"timestamp\": 1}\n", &["t:2: missing field `input_length` at column 16", "as Mooncake has it"]),
        ("no\n", &["t:2: expected ident at column 2", "timestamp (milliseconds)"]),
        (
            "{\"timestamp\": 1, \"input_length\": 600, \"output_length\": 5, \"hash_ids\": [1, 2, 3]}\n",
            &["t:2: 3 hash_ids for 600 tokens; allowed: at most 2", "--block-tokens"],
        ),
        ("{\"timestamp\": -1, \"input_length\": 6, \"output_length\": 5, \"hash_ids\": [1]}\n", &["t:2: the time -1"]),
        (
            "\n\n{\"timestamp\": 1, \"input_length\": -6, \"output_length\": 5, \"hash_ids\": [1]}\n",
            &["t:4: invalid value: integer `-6`"],
        ),
        (
            "{\"timestamp\": 9, \"input_length\": 6, \"output_length\": 5, \"hash_ids\": [1]}\n{\"timestamp\": 8, \"input_length\": 6, \"output_length\": 5, \"hash_ids\": [1]}\n",
            &["t:3: a time before that of the line above"],
        ),
    ];
    for (bad, told) in cases {
        let problem = open(format!("{mooncake}{bad}{mooncake}").as_bytes()).unwrap_err();
        assert!(told.iter().all(|told| problem.contains(told)), "{bad} {problem}");
    }
    let problem = open(format!("{mooncake}{mooncake}").as_bytes()).unwrap_err();
    assert!(problem.contains("requests of one instant"), "{problem}");
    let head = "Timestamp,Operation,Object_Size_Bytes,Tier,Key,Phase\n";
    for (bad, told) in [
        ("1.5,Erase,4096,Tier-2,a,Decode", "t:2: `Erase` as an operation"),
        ("1.5,Read,0,Tier-2,a,Decode", "t:2: `0` as a size"),
        ("1.5,Read,18446744073709551615,Tier-2,a,Decode", "t:2: `18446744073709551615` as a size"),
        ("1.5,Read,4096,Tier-9,a,Decode", "t:2: `Tier-9` as a tier"),
        ("1.5,Read,4096,Tier-2,a", "t:2: 5 fields"),
        ("1.5,Read,4096,Tier-2,a,Sleep", "t:2: `Sleep` as a phase"),
    ] {
        let problem = open(format!("{head}{bad}\n").as_bytes()).unwrap_err();
        assert!(problem.contains(told) && problem.contains("as MLPerf Storage has it"), "{bad} {problem}");
    }
    let record = [&[1, 0, 0, 0][..], &[7; 8], &[0, 16, 0, 0], &[0; 8]].concat();
    assert!(open(&[record.clone(), record[..9].to_vec()].concat()).unwrap_err().contains("t:2: a record of 9 bytes"));
    assert!(open(b"what is this\n").unwrap_err().contains("one of mooncake, bailian, mlperf, oracle-general"));
    assert!(open(b"").is_err() && open(head.as_bytes()).unwrap_err().contains("a trace without a request"));
}

#[test]
fn recorded_evictions_are_skipped_and_counted() {
    let text = "Timestamp,Operation,Object_Size_Bytes,Tier,Key,Phase\n1740553426.194021,Write,131072,Tier-0,layer0/user0,Prefill\n\
                1740553426.194521,Write,131072,Tier-2,layer0/user0,Evict\n1740553427.194590,Read,131072,Tier-2,layer0/user0,Decode\n";
    let trace = open(text.as_bytes()).unwrap();
    assert_eq!((trace.requests, trace.duration_ns / 1_000_000), (2, 1000));
    assert_eq!(trace.left_out.values().sum::<u64>(), 1);
}

#[test]
fn at_most_twenty_trace_problems_are_reported() {
    let problems =
        TokenTrace::open(File::in_memory("t", "{\"hash_ids\"}\n".repeat(100).as_bytes()), None, None).unwrap_err();
    assert_eq!(problems.0.len(), 21);
}
