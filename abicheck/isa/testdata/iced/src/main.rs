// Decodes frames from stdin with iced-x86. A frame is a mode byte, a 32-bit
// length and that many bytes. Mode 0: slots of 16 bytes, one instruction each.
// Mode 1: consecutive instructions; undecodable bytes are skipped one by one.
// For each instruction the answer is its length (0: not decodable), its flow
// (see flow below) and the 64-bit set of its features, numbered as the
// arguments name them.
use iced_x86::{Decoder, DecoderOptions, FlowControl, Instruction};
use std::collections::HashMap;
use std::io::{self, Read, Write};

fn flow(i: &Instruction) -> u8 {
    match i.flow_control() {
        FlowControl::Next | FlowControl::Interrupt => 0,
        FlowControl::ConditionalBranch | FlowControl::XbeginXabortXend => 1,
        FlowControl::UnconditionalBranch => 2,
        FlowControl::IndirectBranch => 3,
        FlowControl::Call => 4,
        FlowControl::IndirectCall => 5,
        FlowControl::Return => 6,
        FlowControl::Exception => 7,
    }
}

fn main() -> io::Result<()> {
    let names: HashMap<String, u64> = std::env::args().skip(1).enumerate().map(|(i, n)| (n, 1u64 << i)).collect();
    let mut memo: HashMap<String, u64> = HashMap::new();
    let mut stdin = io::stdin().lock();
    let mut out = io::BufWriter::with_capacity(1 << 20, io::stdout().lock());
    loop {
        let mut head = [0u8; 5];
        if stdin.read_exact(&mut head).is_err() {
            return out.flush();
        }
        let n = u32::from_le_bytes([head[1], head[2], head[3], head[4]]) as usize;
        let mut buf = vec![0u8; n];
        stdin.read_exact(&mut buf)?;
        let mut masks: HashMap<u16, u64> = HashMap::new();
        let mut mask = |i: &Instruction| -> u64 {
            let memo = &mut memo;
            *masks.entry(i.code() as u16).or_insert_with(|| {
                let mut m = 0;
                for f in i.cpuid_features() {
                    let name = format!("{:?}", f);
                    m |= *memo.entry(name.clone()).or_insert_with(|| *names.get(&name).unwrap_or(&0));
                }
                m
            })
        };
        let mut put = |out: &mut io::BufWriter<io::StdoutLock>, i: &Instruction| -> io::Result<()> {
            if i.is_invalid() {
                return out.write_all(&[0u8; 10]);
            }
            out.write_all(&[i.len() as u8, flow(i)])?;
            out.write_all(&mask(i).to_le_bytes())
        };
        let mut ins = Instruction::default();
        if head[0] == 0 {
            for slot in buf.chunks(16) {
                let mut d = Decoder::new(64, slot, DecoderOptions::NONE);
                d.decode_out(&mut ins);
                put(&mut out, &ins)?;
            }
        } else {
            let mut d = Decoder::new(64, &buf, DecoderOptions::NONE);
            while d.can_decode() {
                let at = d.position();
                d.decode_out(&mut ins);
                put(&mut out, &ins)?;
                if ins.is_invalid() {
                    d.try_set_position(at + 1).unwrap();
                }
            }
            out.write_all(&[255u8; 10])?;
        }
        out.flush()?;
    }
}
