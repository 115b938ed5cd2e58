//! Conversations between host and device as packet ladders: one request in steady state of each kind.

mod common;

use common::{drive, traced};
use expect_test::{Expect, expect};
use phaselink_core::drive::Drive;
use phaselink_core::report;

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
fn a_dc_express_read_is_a_queue_read_and_its_data() {
    check(
        &drive("dc-express", &[]),
        "bs=4k number_ios=100",
        90,
        expect![[r#"
            bs=4k number_ios=100
            times in ns, (duration), xN packets, bytes on the wire, # memory, ... nothing found

                  ns      gap              host |                     link                     | device
            333398.6                            |<--------- queue read, 24 B (259.0) ----------|
            333580.8   +182.2  mark tags (76.8) |                                              |
            333657.6    +76.8   poll wait (0.0) |                                              |
            333757.6   +100.0                   |----------- command, 84 B (289.1) ----------->|
            334046.7   +289.1                   |                                              | parse (32.0)
            334078.7    +32.0                   |                                              | # media (368.0)
            334446.7   +368.0                   |<--------- data x32, 4864 B (2697.4) ---------|
            335894.5  +1447.8                   |<--------- queue read, 24 B (259.0) ----------|
            336253.5   +359.0                   |........ empty answer, 84 B (289.1) .........>|
            337144.1   +890.6     settle (20.0) |                                              |
            337164.1    +20.0       poll (20.0) |                                              |
            337184.1    +20.0 check tags (76.8) |                                              |
            337260.9    +76.8                   |                                              | end
        "#]],
    );
}

#[test]
fn at_depth_4_the_next_queue_reads_go_out_before_the_data_has_been_sent() {
    check(
        &drive("dc-express", &[]),
        "bs=512 iodepth=4 number_ios=200",
        180,
        expect![[r#"
            bs=512 iodepth=4 number_ios=200
            times in ns, (duration), xN packets, bytes on the wire, # memory, ... nothing found

                  ns      gap             host |                     link                      | device
             78351.7                           |<---------- queue read, 24 B (259.0) ----------|
             78557.2   +205.5  mark tags (9.6) |                                               |
             78566.8     +9.6 poll wait (43.9) |                                               |
             78671.4   +104.6                  |<---------- queue read, 24 B (259.0) ----------|
             78710.7    +39.3                  |----------- command, 84 B (289.1) ------------>|
             78999.9   +289.1                  |                                               | parse (32.0)
             79031.9    +32.0                  |                                               | # media (368.0)
             79399.9   +368.0                  |<----------- data x4, 608 B (551.8) -----------|
             79951.6   +551.8    settle (20.0) |                                               |
             79971.6    +20.0      poll (20.0) |                                               |
             79991.6    +20.0 check tags (9.6) |                                               |
             80001.2     +9.6                  |                                               | end
        "#]],
    );
}

#[test]
fn a_dc_express_read_with_late_packets_ends_with_the_last_of_them() {
    let drive = drive("dc-express", &["root_complex.late_write_ratio=0.3"]);
    check(
        &drive,
        "bs=4k number_ios=100",
        90,
        expect![[r#"
            bs=4k number_ios=100
            times in ns, (duration), xN packets, bytes on the wire, # memory, ... nothing found

                  ns      gap              host |                     link                     | device
            360381.0                            |<--------- queue read, 24 B (259.0) ----------|
            360559.4   +178.4  mark tags (76.8) |                                              |
            360636.2    +76.8   poll wait (3.8) |                                              |
            360740.0   +103.8                   |----------- command, 84 B (289.1) ----------->|
            361029.1   +289.1                   |                                              | parse (32.0)
            361061.1    +32.0                   |                                              | # media (368.0)
            361429.1   +368.0                   |<--------- data x32, 4864 B (2697.4) ---------|
            362876.9  +1447.8                   |<--------- queue read, 24 B (259.0) ----------|
            363235.9   +359.0                   |........ empty answer, 84 B (289.1) .........>|
            364126.5   +890.6    settle (243.8) |                                              |
            364370.3   +243.8       poll (20.0) |                                              |
            364390.3    +20.0 check tags (76.8) |                                              |
            364467.1    +76.8                   |                                              | end
        "#]],
    );
}

#[test]
fn an_nvme_read_is_doorbell_fetch_data_completion_entry_and_interrupt() {
    check(
        &drive("nvme", &[]),
        "bs=4k number_ios=100",
        90,
        expect![[r#"
            bs=4k number_ios=100
            times in ns, (duration), xN packets, bytes on the wire, # memory, ... nothing found

                   ns       gap                   host |                 link                  | device
            1142829.8                      fio (253.0) |                                       |
            1143082.8    +253.0    system call (585.0) |                                       |
            1143667.8    +585.0   block driver (495.0) |                                       |
            1144162.8    +495.0          driver (50.0) |                                       |
            1144212.8     +50.0                        |------- doorbell, 28 B (261.0) ------->|
            1144473.9    +261.0                        |<---- fetch command, 24 B (259.0) -----|
            1144832.9    +359.0                        |------- command, 84 B (289.1) -------->|
            1145122.0    +289.1                        |                                       | parse (32.0)
            1145154.0     +32.0                        |                                       | # media (368.0)
            1145522.0    +368.0                        |<----- data x32, 4864 B (2685.3) ------|
            1147960.4   +2438.3                        |<--- completion entry, 40 B (267.1) ---|
            1147980.4     +20.1                        |<-- interrupt message, 28 B (261.0) ---|
            1148207.4    +226.9          settle (20.0) |                                       |
            1148247.4     +40.1     interrupt (5484.0) |                                       |
            1153731.4   +5484.0                        |------- doorbell, 28 B (261.0) ------->|
            1153731.4      +0.0 context switch (550.0) |                                       |
            1154281.4    +550.0          driver (50.0) |                                       |
            1154331.4     +50.0   block driver (495.0) |                                       |
            1154826.4    +495.0    system call (585.0) |                                       |
            1155411.4    +585.0            fio (253.0) |                                       |
            1155664.4    +253.0                        |                                       | end
        "#]],
    );
}

#[test]
fn an_nvme_read_of_more_than_two_pages_fetches_its_page_list_beside_the_media() {
    check(
        &drive("nvme-polled", &[]),
        "bs=16k number_ios=100",
        90,
        expect![[r#"
            bs=16k number_ios=100
            times in ns, (duration), xN packets, bytes on the wire, # memory, ... nothing found

                   ns       gap                 host |                  link                   | device
            1278366.3                    fio (253.0) |                                         |
            1278619.3    +253.0  system call (585.0) |                                         |
            1279204.3    +585.0 block driver (495.0) |                                         |
            1279699.3    +495.0        driver (50.0) |                                         |
            1279749.3     +50.0                      |-------- doorbell, 28 B (261.0) -------->|
            1280010.3    +261.0                      |<----- fetch command, 24 B (259.0) ------|
            1280369.3    +359.0                      |-------- command, 84 B (289.1) --------->|
            1280658.5    +289.1                      |<----- read page list, 24 B (259.0) -----|
            1280658.5      +0.0                      |                                         | parse (32.0)
            1280690.5     +32.0                      |                                         | # media (368.0)
            1281017.5    +327.0                      |------- page list, 44 B (269.1) -------->|
            1281286.5    +269.1                      |<----- data x128, 19456 B (10000.3) -----|
            1291039.9   +9753.3                      |<---- completion entry, 40 B (267.1) ----|
            1291286.9    +247.0        settle (20.0) |                                         |
            1291326.9     +40.1                      |-------- doorbell, 28 B (261.0) -------->|
            1291326.9      +0.0          poll (20.0) |                                         |
            1291346.9     +20.0        driver (50.0) |                                         |
            1291396.9     +50.0 block driver (495.0) |                                         |
            1291891.9    +495.0  system call (585.0) |                                         |
            1292476.9    +585.0          fio (253.0) |                                         |
            1292729.9    +253.0                      |                                         | end
        "#]],
    );
}

#[test]
fn an_nvme_write_reads_its_data_from_the_host_before_the_media_programs_it() {
    check(
        &drive("nvme-polled", &[]),
        "rw=randwrite bs=4k number_ios=100",
        90,
        expect![[r#"
            rw=randwrite bs=4k number_ios=100
            times in ns, (duration), xN packets, bytes on the wire, # memory, ... nothing found

                    ns        gap                 host |                link                | device
            11530600.1                     fio (253.0) |                                    |
            11530853.1     +253.0  system call (585.0) |                                    |
            11531438.1     +585.0 block driver (495.0) |                                    |
            11531933.1     +495.0        driver (50.0) |                                    |
            11531983.1      +50.0                      |----- doorbell, 28 B (261.0) ------>|
            11532244.1     +261.0                      |<--- fetch command, 24 B (259.0) ---|
            11532603.1     +359.0                      |------ command, 84 B (289.1) ------>|
            11532892.2     +289.1                      |                                    | parse (32.0)
            11532924.2      +32.0                      |<--- read data x8, 192 B (343.3) ---|
            11533283.3     +359.0                      |---- data x64, 5376 B (2942.0) ---->|
            11536225.3    +2942.0                      |                                    | # media (122242.0)
            11658467.3  +122242.0                      |<- completion entry, 40 B (267.1) --|
            11658754.4     +287.1                      |----- doorbell, 28 B (261.0) ------>|
            11658754.4       +0.0          poll (20.0) |                                    |
            11658774.4      +20.0        driver (50.0) |                                    |
            11658824.4      +50.0 block driver (495.0) |                                    |
            11659319.4     +495.0  system call (585.0) |                                    |
            11659904.4     +585.0          fio (253.0) |                                    |
            11660157.4     +253.0                      |                                    | end
        "#]],
    );
}

#[test]
fn a_dc_express_write_takes_the_way_of_nvme() {
    // Queue reads go on all the while; they are no part of the write.
    let drive = drive("dc-express", &["media.program_ns=1000"]);
    check(
        &drive,
        "rw=randwrite bs=4k number_ios=100",
        90,
        expect![[r#"
        rw=randwrite bs=4k number_ios=100
        times in ns, (duration), xN packets, bytes on the wire, # memory, ... nothing found

              ns      gap          host |                      link                       | device
        702256.1                        |------------ doorbell, 28 B (261.0) ------------>|
        702326.1    +70.0 driver (50.0) |                                                 |
        702351.6    +25.5               |<----------- queue read, 24 B (259.0) -----------|
        702376.1    +24.5               |------------ doorbell, 28 B (261.0) ------------>|
        702637.1   +261.0               |<--------- fetch command, 24 B (259.0) ----------|
        702710.6    +73.5               |.......... empty answer, 84 B (289.1) ..........>|
        702996.1   +285.5               |------------ command, 84 B (289.1) ------------->|
        703055.7    +59.6               |<----------- queue read, 24 B (259.0) -----------|
        703285.2   +229.5               |                                                 | parse (32.0)
        703317.2    +32.0               |<--------- read data x8, 192 B (343.3) ----------|
        703414.7    +97.5               |.......... empty answer, 84 B (289.1) ..........>|
        703676.3   +261.5               |---------- data x64, 5376 B (2942.0) ----------->|
        703759.8    +83.6               |<----------- queue read, 24 B (259.0) -----------|
        706377.0  +2617.2               |.......... empty answer, 84 B (289.1) ..........>|
        706618.3   +241.3               |                                                 | # media (3242.0)
        706722.1   +103.8               |<----------- queue read, 24 B (259.0) -----------|
        707081.2   +359.0               |.......... empty answer, 84 B (289.1) ..........>|
        707426.3   +345.1               |<----------- queue read, 24 B (259.0) -----------|
        707785.3   +359.0               |.......... empty answer, 84 B (289.1) ..........>|
        708130.4   +345.1               |<----------- queue read, 24 B (259.0) -----------|
        708489.5   +359.0               |.......... empty answer, 84 B (289.1) ..........>|
        708834.6   +345.1               |<----------- queue read, 24 B (259.0) -----------|
        709193.6   +359.0               |.......... empty answer, 84 B (289.1) ..........>|
        709538.7   +345.1               |<----------- queue read, 24 B (259.0) -----------|
        709860.3   +321.6               |<-------- completion entry, 40 B (267.1) --------|
        709880.4    +20.1               |<------- interrupt message, 28 B (261.0) --------|
        709897.7    +17.4               |.......... empty answer, 84 B (289.1) ..........>|
        710147.4   +249.6   poll (20.0) |                                                 |
        710147.4     +0.0               |------------ doorbell, 28 B (261.0) ------------>|
        710167.4    +20.0 driver (50.0) |                                                 |
        710408.4   +241.0               |                                                 | end
    "#]],
    );
}

#[test]
fn on_a_shared_bus_no_two_packets_of_an_nvme_read_overlap() {
    check(
        &drive("nvme-polled", &["link.duplex=shared"]),
        "bs=512 number_ios=100",
        90,
        expect![[r#"
            bs=512 number_ios=100
            times in ns, (duration), xN packets, bytes on the wire, # memory, ... nothing found

                  ns      gap                 host |                   link                    | device
            417145.1                   fio (253.0) |                                           |
            417398.1   +253.0  system call (585.0) |                                           |
            417983.1   +585.0 block driver (495.0) |                                           |
            418478.1   +495.0        driver (50.0) |                                           |
            418528.1    +50.0                      |--------- doorbell, 28 B (261.0) --------->|
            418789.2   +261.0                      |<------ fetch command, 24 B (259.0) -------|
            419148.2   +359.0                      |--------- command, 84 B (289.1) ---------->|
            419437.3   +289.1                      |                                           | parse (32.0)
            419469.3    +32.0                      |                                           | # media (368.0)
            419837.3   +368.0                      |<--------- data x4, 608 B (551.8) ---------|
            420142.1   +304.8                      |<----- completion entry, 40 B (267.1) -----|
            420389.1   +247.0        settle (20.0) |                                           |
            420429.2    +40.1                      |--------- doorbell, 28 B (261.0) --------->|
            420429.2     +0.0          poll (20.0) |                                           |
            420449.2    +20.0        driver (50.0) |                                           |
            420499.2    +50.0 block driver (495.0) |                                           |
            420994.2   +495.0  system call (585.0) |                                           |
            421579.2   +585.0          fio (253.0) |                                           |
            421832.2   +253.0                      |                                           | end
        "#]],
    );
}

#[test]
fn a_moneta_read_is_a_request_word_data_and_a_status_that_the_handler_reads() {
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
fn a_moneta_write_of_three_words_fetches_its_data_and_sleeps() {
    let baseline = ["stack.preset=linux-2.6-no-op", "moneta.request_words=3", "moneta.spin_up_to_bytes=0"];
    check(
        &drive("moneta", &baseline),
        "bs=4k rw=randwrite number_ios=100",
        90,
        expect![[r#"
        bs=4k rw=randwrite number_ios=100
        times in ns, (duration), xN packets, bytes on the wire, # memory, ... nothing found

               ns       gap                    host |                link                 | device
        1823742.1               application (426.0) |                                     |
        1824168.1    +426.0     system call (300.0) |                                     |
        1824468.1    +300.0      direct I/O (684.0) |                                     |
        1825152.1    +684.0     block layer (321.0) |                                     |
        1825473.1    +321.0    I/O scheduler (50.0) |                                     |
        1825523.1     +50.0   I/O scheduler (100.0) |                                     |
        1825623.1    +100.0       core wait (550.0) |                                     |
        1826173.1    +550.0  context switch (550.0) |                                     |
        1826723.1    +550.0          dequeue (50.0) |                                     |
        1826773.1     +50.0           issue (150.0) |                                     |
        1826923.1    +150.0           copy (1024.0) |                                     |
        1827947.1   +1024.0                         |---- request word, 32 B (316.0) ---->|
        1827963.1     +16.0                         |---- request word, 32 B (316.0) ---->|
        1827979.1     +16.0                         |---- request word, 32 B (316.0) ---->|
        1828295.2    +316.0                         |                                     | parse (743.0)
        1829038.2    +743.0                         |<--- read data x8, 192 B (396.3) ----|
        1829696.2    +658.0                         |---- data x64, 5376 B (2995.0) ----->|
        1832691.3   +2995.0                         |                                     | ring (1024.0)
        1833715.3   +1024.0                         |                                     | # media (1174.0)
        1834889.3   +1174.0                         |<- interrupt message, 28 B (314.0) --|
        1834889.3      +0.0      interrupt (2690.1) |                                     |
        1836953.3   +2064.0                         |---- read status, 24 B (312.0) ----->|
        1837265.3    +312.0                         |<------- status, 28 B (314.0) -------|
        1837579.4    +314.0       interrupt (100.0) |                                     |
        1837679.4    +100.0  context switch (550.0) |                                     |
        1838229.4    +550.0 context switch (4230.0) |                                     |
        1842459.4   +4230.0    I/O scheduler (40.0) |                                     |
        1842499.4     +40.0     block layer (320.0) |                                     |
        1842819.4    +320.0      direct I/O (683.0) |                                     |
        1843502.4    +683.0     system call (300.0) |                                     |
        1843802.4    +300.0     application (425.0) |                                     |
        1844227.4    +425.0                         |                                     | end
    "#]],
    );
}

#[test]
fn a_pss_read_is_a_doorbell_a_descriptor_the_page_and_its_record() {
    check(
        &drive("pss", &[]),
        "bs=4k number_ios=20",
        15,
        expect![[r#"
            bs=4k number_ios=20
            times in ns, (duration), xN packets, bytes on the wire, # memory, ... nothing found

                  ns      gap                   host |                 link                 | device
            554377.4                     fio (253.0) |                                      |
            554630.4   +253.0    system call (585.0) |                                      |
            555215.4   +585.0    block layer (670.0) |                                      |
            555885.4   +670.0   block driver (495.0) |                                      |
            556380.4   +495.0          driver (50.0) |                                      |
            556430.4    +50.0                        |------ doorbell, 28 B (261.0) ------->|
            556691.4   +261.0                        |<-- read descriptors, 24 B (259.0) ---|
            557050.4   +359.0                        |----- descriptors, 52 B (273.1) ----->|
            557323.5   +273.1                        |                                      | firmware (15850.0)
            573173.5 +15850.0                        |                                      | # media (13474.5)
            586648.0 +13474.5                        |<----- data x32, 4864 B (2685.3) -----|
            589086.4  +2438.3                        |<-- completion record, 32 B (263.0) --|
            589102.4    +16.0                        |<-- interrupt message, 28 B (261.0) --|
            589333.4   +231.0          settle (20.0) |                                      |
            589369.4    +36.0     interrupt (2014.0) |                                      |
            591383.5  +2014.0 context switch (550.0) |                                      |
            591933.5   +550.0   block driver (495.0) |                                      |
            592428.5   +495.0    block layer (670.0) |                                      |
            593098.5   +670.0    system call (585.0) |                                      |
            593683.5   +585.0            fio (253.0) |                                      |
            593936.5   +253.0                        |                                      | end
        "#]],
    );
}

#[test]
fn a_pss_write_is_a_doorbell_a_descriptor_the_page_read_and_its_record() {
    let drive = drive("pss", &["media.wear_levelling=none"]);
    check(
        &drive,
        "rw=randwrite bs=4k thinktime=1ms number_ios=20",
        15,
        expect![[r#"
            rw=randwrite bs=4k thinktime=1ms number_ios=20
            times in ns, (duration), xN packets, bytes on the wire, # memory, ... nothing found

                    ns        gap                   host |               link               | device
            14384962.0                    queued (550.0) |                                  |
            14385512.0     +550.0            fio (253.0) |                                  |
            14385765.0     +253.0    system call (585.0) |                                  |
            14386350.0     +585.0    block layer (670.0) |                                  |
            14387020.0     +670.0   block driver (495.0) |                                  |
            14387515.0     +495.0          driver (50.0) |                                  |
            14387565.0      +50.0                        |---- doorbell, 28 B (261.0) ----->|
            14387826.1     +261.0                        |<- read descripto…, 24 B (259.0) -|
            14388185.1     +359.0                        |--- descriptors, 52 B (273.1) --->|
            14388458.2     +273.1                        |                                  | firmware (15850.0)
            14404308.2   +15850.0                        |<-- read data x8, 192 B (343.3) --|
            14404667.2     +359.0                        |--- data x64, 5376 B (2942.0) --->|
            14407609.2    +2942.0                        |<- completion rec…, 32 B (263.0) -|
            14407625.3      +16.0                        |<- interrupt mess…, 28 B (261.0) -|
            14407892.3     +267.0     interrupt (2014.0) |                                  |
            14409906.3    +2014.0 context switch (550.0) |                                  |
            14410456.3     +550.0   block driver (495.0) |                                  |
            14410951.3     +495.0    block layer (670.0) |                                  |
            14411621.3     +670.0    system call (585.0) |                                  |
            14412206.3     +585.0            fio (253.0) |                                  |
            14412459.3     +253.0                        |                                  | end
        "#]],
    );
}
