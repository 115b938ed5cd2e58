//! Conversations between host and device as packet ladders: one request in steady state of each kind.

use std::collections::BTreeSet;

use crate::common::{drive, traced};
use expect_test::{Expect, expect};
use phaselink_core::drive::Drive;
use phaselink_studies::report;

/// The ladder of request `number` of a job.
fn ladder(drive: &Drive, job: &str, number: u64) -> String {
    report::ladder(&traced(drive, job).trace().of_request(number), job)
}

/// The request in steady state, the same in a second run, and in packet granularity one or more lines instead of each.
fn check(drive: &Drive, job: &str, number: u64, expected: Expect) {
    let text = ladder(drive, job, number);
    assert_eq!(text, ladder(drive, job, number), "the same run gives the same ladder");
    expected.assert_eq(&text);
}

#[test]
fn dc_express_read_ladder_is_a_queue_read_and_data() {
    check(
        &drive("dc-express", &[]),
        "bs=4k number_ios=100",
        90,
        expect![[r#"
            bs=4k number_ios=100
            times in ns, (duration), xN packets, bytes on the wire, # memory, ... nothing found

                  ns      gap              host |                     link                     | device
            334281.4                            |<--------- queue read, 24 B (265.0) ----------|
            334463.2   +181.8  mark tags (80.0) |                                              |
            334543.2    +80.0   poll wait (3.3) |                                              |
            334646.5   +103.3                   |----------- command, 84 B (295.1) ----------->|
            334941.6   +295.1                   |                                              | parse (32.0)
            334973.6    +32.0                   |                                              | # media (368.0)
            335341.6   +368.0                   |<--------- data x32, 4864 B (2703.4) ---------|
            336789.3  +1447.8                   |<--------- queue read, 24 B (265.0) ----------|
            337154.4   +365.0                   |........ empty answer, 84 B (295.1) .........>|
            338044.9   +890.6     settle (20.0) |                                              |
            338064.9    +20.0       poll (20.0) |                                              |
            338084.9    +20.0 check tags (80.0) |                                              |
            338164.9    +80.0                   |                                              | end
        "#]],
    );
}

#[test]
fn queue_reads_at_depth_4_precede_the_data() {
    check(
        &drive("dc-express", &[]),
        "bs=512 iodepth=4 number_ios=200",
        180,
        expect![[r#"
            bs=512 iodepth=4 number_ios=200
            times in ns, (duration), xN packets, bytes on the wire, # memory, ... nothing found

                  ns      gap              host |                     link                     | device
             86184.7                            |<--------- queue read, 24 B (265.0) ----------|
             86241.4    +56.6  mark tags (10.0) |                                              |
             86251.4    +10.0 poll wait (198.4) |                                              |
             86501.6   +250.2                   |<--------- queue read, 24 B (265.0) ----------|
             86549.8    +48.2                   |----------- command, 84 B (295.1) ----------->|
             86844.9   +295.1                   |                                              | parse (32.0)
             86876.9    +32.0                   |                                              | # media (368.0)
             87244.9   +368.0                   |<---------- data x4, 608 B (557.8) -----------|
             87802.7   +557.8     settle (20.0) |                                              |
             87822.7    +20.0       poll (20.0) |                                              |
             87842.7    +20.0 check tags (10.0) |                                              |
             87852.7    +10.0                   |                                              | end
        "#]],
    );
}

#[test]
fn dc_express_read_with_delayed_packets_ends_with_the_last() {
    let drive = drive("dc-express", &["root_complex.late_write_ratio=0.3"]);
    check(
        &drive,
        "bs=4k number_ios=100",
        90,
        expect![[r#"
            bs=4k number_ios=100
            times in ns, (duration), xN packets, bytes on the wire, # memory, ... nothing found

                  ns      gap              host |                     link                     | device
            380119.9           mark tags (80.0) |                                              |
            380187.2    +67.3                   |........ empty answer, 84 B (295.1) .........>|
            380199.9    +12.7 poll wait (579.5) |                                              |
            380514.3   +314.5                   |<--------- queue read, 24 B (265.0) ----------|
            380879.4   +365.0                   |----------- command, 84 B (295.1) ----------->|
            381174.5   +295.1                   |                                              | parse (32.0)
            381206.5    +32.0                   |                                              | # media (368.0)
            381574.5   +368.0                   |<--------- data x32, 4864 B (2718.3) ---------|
            383022.2  +1447.8                   |<--------- queue read, 24 B (265.0) ----------|
            383387.3   +365.0                   |........ empty answer, 84 B (295.1) .........>|
            383722.9   +335.6                   |<--------- queue read, 24 B (265.0) ----------|
            384087.9   +365.0                   |........ empty answer, 84 B (295.1) .........>|
            384292.7   +204.8    settle (167.6) |                                              |
            384460.3   +167.6       poll (20.0) |                                              |
            384480.3    +20.0 check tags (80.0) |                                              |
            384560.3    +80.0                   |                                              | end
        "#]],
    );
}

#[test]
fn nvme_read_ladder_is_doorbell_fetch_data_completion_and_interrupt() {
    check(
        &drive("nvme", &[]),
        "bs=4k number_ios=100",
        90,
        expect![[r#"
            bs=4k number_ios=100
            times in ns, (duration), xN packets, bytes on the wire, # memory, ... nothing found

                   ns       gap                   host |                 link                  | device
            1144965.8                      fio (253.0) |                                       |
            1145218.8    +253.0    system call (585.0) |                                       |
            1145803.8    +585.0   block driver (495.0) |                                       |
            1146298.8    +495.0          driver (50.0) |                                       |
            1146348.8     +50.0                        |------- doorbell, 28 B (267.0) ------->|
            1146615.9    +267.0                        |<---- fetch command, 24 B (265.0) -----|
            1146980.9    +365.0                        |------- command, 84 B (295.1) -------->|
            1147276.0    +295.1                        |                                       | parse (32.0)
            1147308.0     +32.0                        |                                       | # media (368.0)
            1147676.0    +368.0                        |<----- data x32, 4864 B (2691.3) ------|
            1150114.4   +2438.3                        |<--- completion entry, 40 B (273.1) ---|
            1150134.4     +20.1                        |<-- interrupt message, 28 B (267.0) ---|
            1150367.4    +232.9          settle (20.0) |                                       |
            1150407.4     +40.1     interrupt (5484.0) |                                       |
            1155891.4   +5484.0                        |------- doorbell, 28 B (267.0) ------->|
            1155891.4      +0.0 context switch (550.0) |                                       |
            1156441.4    +550.0          driver (50.0) |                                       |
            1156491.4     +50.0   block driver (495.0) |                                       |
            1156986.4    +495.0    system call (585.0) |                                       |
            1157571.4    +585.0            fio (253.0) |                                       |
            1157824.4    +253.0                        |                                       | end
        "#]],
    );
}

#[test]
fn large_nvme_read_fetches_its_page_list_during_the_media_read() {
    check(
        &drive("nvme-polled", &[]),
        "bs=16k number_ios=100",
        90,
        expect![[r#"
            bs=16k number_ios=100
            times in ns, (duration), xN packets, bytes on the wire, # memory, ... nothing found

                   ns       gap                 host |                  link                   | device
            1281570.3                    fio (253.0) |                                         |
            1281823.3    +253.0  system call (585.0) |                                         |
            1282408.3    +585.0 block driver (495.0) |                                         |
            1282903.3    +495.0        driver (50.0) |                                         |
            1282953.3     +50.0                      |-------- doorbell, 28 B (267.0) -------->|
            1283220.3    +267.0                      |<----- fetch command, 24 B (265.0) ------|
            1283585.3    +365.0                      |-------- command, 84 B (295.1) --------->|
            1283880.5    +295.1                      |<----- read page list, 24 B (265.0) -----|
            1283880.5      +0.0                      |                                         | parse (32.0)
            1283912.5     +32.0                      |                                         | # media (368.0)
            1284245.5    +333.0                      |------- page list, 44 B (275.1) -------->|
            1284520.5    +275.1                      |<----- data x128, 19456 B (10006.3) -----|
            1294273.9   +9753.3                      |<---- completion entry, 40 B (273.1) ----|
            1294526.9    +253.0        settle (20.0) |                                         |
            1294566.9     +40.1                      |-------- doorbell, 28 B (267.0) -------->|
            1294566.9      +0.0          poll (20.0) |                                         |
            1294586.9     +20.0        driver (50.0) |                                         |
            1294636.9     +50.0 block driver (495.0) |                                         |
            1295131.9    +495.0  system call (585.0) |                                         |
            1295716.9    +585.0          fio (253.0) |                                         |
            1295969.9    +253.0                      |                                         | end
        "#]],
    );
}

#[test]
fn nvme_write_reads_host_data_before_programming() {
    check(
        &drive("nvme-polled", &[]),
        "rw=randwrite bs=4k number_ios=100",
        90,
        expect![[r#"
            rw=randwrite bs=4k number_ios=100
            times in ns, (duration), xN packets, bytes on the wire, # memory, ... nothing found

                    ns        gap                 host |                link                | device
            11533804.1                     fio (253.0) |                                    |
            11534057.1     +253.0  system call (585.0) |                                    |
            11534642.1     +585.0 block driver (495.0) |                                    |
            11535137.1     +495.0        driver (50.0) |                                    |
            11535187.1      +50.0                      |----- doorbell, 28 B (267.0) ------>|
            11535454.1     +267.0                      |<--- fetch command, 24 B (265.0) ---|
            11535819.1     +365.0                      |------ command, 84 B (295.1) ------>|
            11536114.2     +295.1                      |                                    | parse (32.0)
            11536146.2      +32.0                      |<--- read data x8, 192 B (349.3) ---|
            11536511.3     +365.0                      |---- data x64, 5376 B (2948.0) ---->|
            11539459.3    +2948.0                      |                                    | # media (122242.0)
            11661701.3  +122242.0                      |<- completion entry, 40 B (273.1) --|
            11661994.4     +293.1                      |----- doorbell, 28 B (267.0) ------>|
            11661994.4       +0.0          poll (20.0) |                                    |
            11662014.4      +20.0        driver (50.0) |                                    |
            11662064.4      +50.0 block driver (495.0) |                                    |
            11662559.4     +495.0  system call (585.0) |                                    |
            11663144.4     +585.0          fio (253.0) |                                    |
            11663397.4     +253.0                      |                                    | end
        "#]],
    );
}

#[test]
fn dc_express_write_has_the_ladder_of_nvme() {
    // Queue reads continue during the write, but are not part of it.
    let drive = drive("dc-express", &["media.program_ns=1000"]);
    check(
        &drive,
        "rw=randwrite bs=4k number_ios=100",
        90,
        expect![[r#"
            rw=randwrite bs=4k number_ios=100
            times in ns, (duration), xN packets, bytes on the wire, # memory, ... nothing found

                  ns      gap          host |                      link                       | device
            705460.1                        |------------ doorbell, 28 B (267.0) ------------>|
            705465.6     +5.5               |<----------- queue read, 24 B (265.0) -----------|
            705530.1    +64.5 driver (50.0) |                                                 |
            705580.1    +50.0               |------------ doorbell, 28 B (267.0) ------------>|
            705830.6   +250.5               |.......... empty answer, 84 B (295.1) ..........>|
            705847.1    +16.5               |<--------- fetch command, 24 B (265.0) ----------|
            706157.7   +310.6               |<----------- queue read, 24 B (265.0) -----------|
            706212.1    +54.4               |------------ command, 84 B (295.1) ------------->|
            706507.2   +295.1               |                                                 | parse (32.0)
            706522.7    +15.5               |.......... empty answer, 84 B (295.1) ..........>|
            706539.2    +16.5               |<--------- read data x8, 192 B (349.3) ----------|
            706849.8   +310.6               |<----------- queue read, 24 B (265.0) -----------|
            706904.3    +54.4               |---------- data x64, 5376 B (2948.0) ----------->|
            709605.0  +2700.8               |.......... empty answer, 84 B (295.1) ..........>|
            709852.3   +247.3               |                                                 | # media (3242.0)
            709932.1    +79.8               |<----------- queue read, 24 B (265.0) -----------|
            710297.2   +365.0               |.......... empty answer, 84 B (295.1) ..........>|
            710624.3   +327.1               |<----------- queue read, 24 B (265.0) -----------|
            710989.3   +365.0               |.......... empty answer, 84 B (295.1) ..........>|
            711316.4   +327.1               |<----------- queue read, 24 B (265.0) -----------|
            711681.5   +365.0               |.......... empty answer, 84 B (295.1) ..........>|
            712008.6   +327.1               |<----------- queue read, 24 B (265.0) -----------|
            712373.6   +365.0               |.......... empty answer, 84 B (295.1) ..........>|
            712700.7   +327.1               |<----------- queue read, 24 B (265.0) -----------|
            713065.7   +365.0               |.......... empty answer, 84 B (295.1) ..........>|
            713094.3    +28.6               |<-------- completion entry, 40 B (273.1) --------|
            713114.4    +20.1               |<------- interrupt message, 28 B (267.0) --------|
            713387.4   +273.0   poll (20.0) |                                                 |
            713387.4     +0.0               |------------ doorbell, 28 B (267.0) ------------>|
            713392.9     +5.5               |<----------- queue read, 24 B (265.0) -----------|
            713407.4    +14.5 driver (50.0) |                                                 |
            713657.9   +250.5               |                                                 | end
        "#]],
    );
}

#[test]
fn packets_on_a_shared_bus_do_not_overlap() {
    check(
        &drive("nvme-polled", &["link.duplex=shared"]),
        "bs=512 number_ios=100",
        90,
        expect![[r#"
            bs=512 number_ios=100
            times in ns, (duration), xN packets, bytes on the wire, # memory, ... nothing found

                  ns      gap                 host |                   link                    | device
            419281.1                   fio (253.0) |                                           |
            419534.1   +253.0  system call (585.0) |                                           |
            420119.1   +585.0 block driver (495.0) |                                           |
            420614.1   +495.0        driver (50.0) |                                           |
            420664.1    +50.0                      |--------- doorbell, 28 B (267.0) --------->|
            420931.2   +267.0                      |<------ fetch command, 24 B (265.0) -------|
            421296.2   +365.0                      |--------- command, 84 B (295.1) ---------->|
            421591.3   +295.1                      |                                           | parse (32.0)
            421623.3    +32.0                      |                                           | # media (368.0)
            421991.3   +368.0                      |<--------- data x4, 608 B (557.8) ---------|
            422296.1   +304.8                      |<----- completion entry, 40 B (273.1) -----|
            422549.1   +253.0        settle (20.0) |                                           |
            422589.2    +40.1                      |--------- doorbell, 28 B (267.0) --------->|
            422589.2     +0.0          poll (20.0) |                                           |
            422609.2    +20.0        driver (50.0) |                                           |
            422659.2    +50.0 block driver (495.0) |                                           |
            423154.2   +495.0  system call (585.0) |                                           |
            423739.2   +585.0          fio (253.0) |                                           |
            423992.2   +253.0                      |                                           | end
        "#]],
    );
}

#[test]
fn moneta_read_ladder_is_request_word_data_and_status() {
    check(
        &drive("moneta", &[]),
        "bs=4k number_ios=100",
        90,
        expect![[r#"
        bs=4k number_ios=100
        times in ns, (duration), xN packets, bytes on the wire, # memory, ... nothing found

               ns       gap                host |                  link                   | device
        1053997.1           application (426.0) |                                         |
        1054423.1    +426.0 system call (300.0) |                                         |
        1054723.1    +300.0  direct I/O (684.0) |                                         |
        1055407.1    +684.0 block layer (321.0) |                                         |
        1055728.1    +321.0        issue (50.0) |                                         |
        1055778.1     +50.0                     |------ request word, 32 B (316.0) ------>|
        1056094.1    +316.0                     |                                         | parse (743.0)
        1056837.1    +743.0                     |                                         | # media (1072.0)
        1057909.1   +1072.0                     |                                         | ring (1024.0)
        1058933.1   +1024.0                     |<------ data x32, 4864 B (2738.3) -------|
        1061371.5   +2438.3                     |<--- interrupt message, 28 B (314.0) ----|
        1061671.5    +300.0       settle (50.0) |                                         |
        1061721.5     +50.0  interrupt (1340.1) |                                         |
        1062435.5    +714.0                     |------ read status, 24 B (312.0) ------->|
        1062747.5    +312.0                     |<--------- status, 28 B (314.0) ---------|
        1063061.6    +314.0         poll (20.0) |                                         |
        1063081.6     +20.0       copy (1024.0) |                                         |
        1064105.6   +1024.0 block layer (320.0) |                                         |
        1064425.6    +320.0  direct I/O (683.0) |                                         |
        1065108.6    +683.0 system call (300.0) |                                         |
        1065408.6    +300.0 application (425.0) |                                         |
        1065833.6    +425.0                     |                                         | end
    "#]],
    );
}

#[test]
fn moneta_write_ladder_is_three_words_data_fetch_and_sleep() {
    let baseline = ["stack.preset=linux-2.6-no-op", "moneta.request_words=3", "moneta.spin_up_to_bytes=0"];
    check(
        &drive("moneta", &baseline),
        "bs=4k rw=randwrite number_ios=100",
        90,
        expect![[r#"
            bs=4k rw=randwrite number_ios=100
            times in ns, (duration), xN packets, bytes on the wire, # memory, ... nothing found

                   ns       gap                    host |                link                 | device
            1809057.1               application (426.0) |                                     |
            1809483.1    +426.0     system call (300.0) |                                     |
            1809783.1    +300.0      direct I/O (684.0) |                                     |
            1810467.1    +684.0     block layer (321.0) |                                     |
            1810788.1    +321.0    I/O scheduler (40.0) |                                     |
            1810828.1     +40.0   I/O scheduler (100.0) |                                     |
            1810928.1    +100.0       core wait (550.0) |                                     |
            1811478.1    +550.0  context switch (550.0) |                                     |
            1812028.1    +550.0          dequeue (40.0) |                                     |
            1812068.1     +40.0           issue (150.0) |                                     |
            1812218.1    +150.0           copy (1024.0) |                                     |
            1813242.1   +1024.0                         |---- request word, 32 B (316.0) ---->|
            1813258.1     +16.0                         |---- request word, 32 B (316.0) ---->|
            1813274.1     +16.0                         |---- request word, 32 B (316.0) ---->|
            1813590.2    +316.0                         |                                     | parse (743.0)
            1814333.2    +743.0                         |<--- read data x8, 192 B (396.3) ----|
            1814846.2    +513.0                         |---- data x64, 5376 B (2995.0) ----->|
            1817841.3   +2995.0                         |                                     | ring (1024.0)
            1818865.3   +1024.0                         |                                     | # media (1174.0)
            1820039.3   +1174.0                         |<- interrupt message, 28 B (314.0) --|
            1820039.3      +0.0      interrupt (2690.1) |                                     |
            1822103.3   +2064.0                         |---- read status, 24 B (312.0) ----->|
            1822415.3    +312.0                         |<------- status, 28 B (314.0) -------|
            1822729.4    +314.0       interrupt (100.0) |                                     |
            1822829.4    +100.0  context switch (550.0) |                                     |
            1823379.4    +550.0 context switch (4230.0) |                                     |
            1827609.4   +4230.0    I/O scheduler (40.0) |                                     |
            1827649.4     +40.0     block layer (320.0) |                                     |
            1827969.4    +320.0      direct I/O (683.0) |                                     |
            1828652.4    +683.0     system call (300.0) |                                     |
            1828952.4    +300.0     application (425.0) |                                     |
            1829377.4    +425.0                         |                                     | end
        "#]],
    );
}

#[test]
fn pss_read_ladder_is_doorbell_descriptor_page_and_record() {
    check(
        &drive("pss", &[]),
        "bs=4k number_ios=20",
        15,
        expect![[r#"
            bs=4k number_ios=20
            times in ns, (duration), xN packets, bytes on the wire, # memory, ... nothing found

                  ns      gap                   host |                 link                 | device
            554713.4                     fio (253.0) |                                      |
            554966.4   +253.0    system call (585.0) |                                      |
            555551.4   +585.0    block layer (670.0) |                                      |
            556221.4   +670.0   block driver (495.0) |                                      |
            556716.4   +495.0          driver (50.0) |                                      |
            556766.4    +50.0                        |------ doorbell, 28 B (267.0) ------->|
            557033.4   +267.0                        |<-- read descriptors, 24 B (265.0) ---|
            557398.4   +365.0                        |----- descriptors, 52 B (279.1) ----->|
            557677.5   +279.1                        |                                      | firmware (15850.0)
            573527.5 +15850.0                        |                                      | # media (13474.5)
            587002.0 +13474.5                        |<----- data x32, 4864 B (2691.3) -----|
            589440.4  +2438.3                        |<-- completion record, 32 B (269.0) --|
            589456.4    +16.0                        |<-- interrupt message, 28 B (267.0) --|
            589693.4   +237.0          settle (20.0) |                                      |
            589729.4    +36.0     interrupt (2014.0) |                                      |
            591743.5  +2014.0 context switch (550.0) |                                      |
            592293.5   +550.0   block driver (495.0) |                                      |
            592788.5   +495.0    block layer (670.0) |                                      |
            593458.5   +670.0    system call (585.0) |                                      |
            594043.5   +585.0            fio (253.0) |                                      |
            594296.5   +253.0                        |                                      | end
        "#]],
    );
}

#[test]
fn pss_write_ladder_is_doorbell_descriptor_page_read_and_record() {
    let drive = drive("pss", &["media.wear_levelling=none"]);
    check(
        &drive,
        "rw=randwrite bs=4k thinktime=1ms number_ios=20",
        15,
        expect![[r#"
            rw=randwrite bs=4k thinktime=1ms number_ios=20
            times in ns, (duration), xN packets, bytes on the wire, # memory, ... nothing found

                    ns        gap                   host |               link               | device
            14385466.0                    queued (550.0) |                                  |
            14386016.0     +550.0            fio (253.0) |                                  |
            14386269.0     +253.0    system call (585.0) |                                  |
            14386854.0     +585.0    block layer (670.0) |                                  |
            14387524.0     +670.0   block driver (495.0) |                                  |
            14388019.0     +495.0          driver (50.0) |                                  |
            14388069.0      +50.0                        |---- doorbell, 28 B (267.0) ----->|
            14388336.1     +267.0                        |<- read descripto…, 24 B (265.0) -|
            14388701.1     +365.0                        |--- descriptors, 52 B (279.1) --->|
            14388980.2     +279.1                        |                                  | firmware (15850.0)
            14404830.2   +15850.0                        |<-- read data x8, 192 B (349.3) --|
            14405195.2     +365.0                        |--- data x64, 5376 B (2948.0) --->|
            14408143.2    +2948.0                        |<- completion rec…, 32 B (269.0) -|
            14408159.3      +16.0                        |<- interrupt mess…, 28 B (267.0) -|
            14408432.3     +273.0     interrupt (2014.0) |                                  |
            14410446.3    +2014.0 context switch (550.0) |                                  |
            14410996.3     +550.0   block driver (495.0) |                                  |
            14411491.3     +495.0    block layer (670.0) |                                  |
            14412161.3     +670.0    system call (585.0) |                                  |
            14412746.3     +585.0            fio (253.0) |                                  |
            14412999.3     +253.0                        |                                  | end
        "#]],
    );
}

#[test]
fn multi_entry_fetches_serve_one_request_each_in_steady_state() {
    let simulation = traced(&drive("nvme-polled", &[]), "bs=512 iodepth=4 number_ios=100");
    let records = simulation.trace().records();
    let fetches: Vec<_> = records.iter().filter(|record| record.step.name() == "fetch command").skip(10).collect();
    let requests: BTreeSet<u64> = fetches.iter().filter_map(|fetch| fetch.request).collect();
    assert_eq!((fetches.len(), requests.len()), (90, 90));
}
