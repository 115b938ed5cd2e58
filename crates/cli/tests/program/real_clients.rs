//! Programs that others have written, against a served drive: fio, nbdinfo, nbdcopy, qemu-img, qemu-io, and nbdkit as a client.
//!
//! Where they are missing and this is root on a system with apt, they are installed; otherwise the test says that it
//! has been left out.
#![cfg(unix)]

use crate::common::programs::are_here;
use crate::common::{Ran, directory, program};

const CLIENTS: [&str; 4] = ["fio", "nbdinfo", "nbdcopy", "qemu-img"];

/// Run a script of clients against a drive of 16 MiB; all that it prints.
fn run_client_script(test: &str, flags: &[&str], script: &str) -> Ran {
    let here = directory(test);
    let mut command = program();
    command.current_dir(&here).args(["serve", "nvme-polled", "--set", "media.capacity_mib=16"]);
    command.args(["--nbd", "nbd+unix:///disk?socket=a.sock", "--lag-tolerance-us", "1e9"]);
    let ran: Ran = command.args(flags).args(["--run", &format!("set -e; {script}")]).output().unwrap().into();
    assert_eq!(ran.code, Some(0), "{}{}", ran.stdout, ran.stderr);
    ran
}

const VERIFY: &str = "fio --name=verify --ioengine=nbd --uri=\"$uri\" --rw=randwrite --bsrange=512-64k \
    --bs_unaligned=0 --size=4m --iodepth=16 --verify=crc32c --verify_fatal=1 --fsync=50 > fio.txt";

#[test]
fn fio_verifies_its_writes_with_and_without_timing() {
    if !are_here(&CLIENTS) {
        return;
    }
    for timing in ["on", "off"] {
        let ran = run_client_script("fio", &["--timing", timing], VERIFY);
        assert!(ran.stdout.contains("write"), "{}", ran.stdout);
    }
    run_client_script("fio-store", &["--timing", "off", "--store", "bytes", "--wait", "block"], VERIFY);
}

#[test]
fn nbd_tools_see_size_and_features_and_copy_data_back() {
    if !are_here(&CLIENTS) {
        return;
    }
    let script = "
        test $(nbdinfo --size \"$uri\") = 16777216
        nbdinfo --list \"$uri\" | grep -q 'export=\"disk\"'
        for can in flush fua trim zero multi-conn df; do nbdinfo --can $can \"$uri\" || { echo cannot $can; exit 1; }; done
        nbdinfo --map \"$uri\" | grep -q '^ *0 *16777216 *3 '
        head -c 3000000 /dev/urandom > put; truncate -s 16M put
        nbdcopy --connections=4 put \"$uri\"; nbdcopy \"$uri\" got; cmp put got
        qemu-img convert -n -f raw -O raw got \"$uri\"; qemu-img compare -f raw -F raw put \"$uri\"
        ! nbdinfo \"nbd+unix:///other?socket=a.sock\" 2> refusal; grep -q -i 'export' refusal";
    for timing in ["on", "off"] {
        run_client_script("copy", &["--timing", timing, "--store", "bytes"], script);
    }
}

/// nbdkit's own client hands the drive on, and QEMU's tool writes patterns through it and looks for them.
#[test]
fn nbdkit_client_and_qemu_io_read_back_their_patterns() {
    if !are_here(&["nbdkit", "nbdcopy", "nbdinfo", "qemu-io"]) {
        return;
    }
    let script = "
        qemu-io -f raw -c 'write -P 0x5a 4k 64k' -c 'write -z 8k 8k' -c 'discard 1m 1m' -c flush \
            -c 'read -P 0x5a 4k 4k' -c 'read -P 0 8k 8k' -c 'read -P 0x5a 16k 52k' \"$uri\" > io; if grep -i fail io; then exit 1; fi
        export uri
        nbdkit -U - nbd uri=\"$uri\" --run '
            test $(nbdinfo --size \"$uri\") = 16777216
            qemu-io -f raw -c \"read -P 0x5a 16k 52k\" -c \"write -P 0xa5 2m 1m\" -c flush \"$uri\" > through
            if grep -i fail through; then exit 1; fi
            nbdcopy \"$uri\" through.raw'
        nbdcopy \"$uri\" straight.raw; cmp through.raw straight.raw";
    for timing in ["on", "off"] {
        run_client_script("nbdkit", &["--timing", timing], script);
    }
}
