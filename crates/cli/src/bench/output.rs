//! Whole columns and whole rows to the client, which reads the messages and throws them away: what
//! a driver would do with them is the same on both sides.

use std::io::{BufReader, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::time::Instant;

use anyhow::bail;

use super::figure::{Figure, Goal, Unit};
use super::{Options, Side, queries, table};
use crate::cluster::Cluster;
use crate::instance;
use crate::progress::{Counting, Progress};

/// 1.5 times heap's rate.
const COLUMN: Option<Goal> = Some(Goal::RatioAtMost(0.667));
const ROWS: Option<Goal> = Some(Goal::RatioAtMost(1.0));

/// Title, statement, goal.
const CASES: [(&str, &str, Option<Goal>); 6] = [
    ("c2 to the client", "SELECT c2 FROM T", COLUMN),
    ("c1 to the client", "SELECT c1 FROM T", COLUMN),
    ("all columns to the client", "SELECT * FROM T", ROWS),
    ("copy out", "COPY T TO STDOUT", ROWS),
    ("copy out to a file", "COPY T TO '/dev/null'", ROWS),
    ("copy out as CSV", "COPY T TO STDOUT (FORMAT csv)", ROWS),
];

/// A session that looks at messages as they are.
struct Wire {
    to: UnixStream,
    from: BufReader<UnixStream>,
}

/// What was received: rows, and a sum over their bytes in which the order of rows does not count.
#[derive(Debug, Default, PartialEq, Eq)]
struct Received {
    rows: u64,
    sum: u64,
}

impl Wire {
    fn open(cluster: &Cluster) -> anyhow::Result<Wire> {
        let to = UnixStream::connect(cluster.socket.join(format!(".s.PGSQL.{}", cluster.port)))?;
        let from = BufReader::with_capacity(1 << 18, to.try_clone()?);
        let mut wire = Wire { to, from };
        let (user, database) = (&cluster.superuser, instance::DATABASE);
        let mut start = 196_608_u32.to_be_bytes().to_vec();
        start.extend(format!("user\0{user}\0database\0{database}\0\0").bytes());
        wire.send(&start)?;
        wire.receive()?;
        Ok(wire)
    }

    fn send(&mut self, body: &[u8]) -> anyhow::Result<()> {
        let len = u32::try_from(body.len() + 4)?.to_be_bytes();
        Ok(self.to.write_all(&[&len[..], body].concat())?)
    }

    fn ask(&mut self, sql: &str) -> anyhow::Result<Received> {
        self.to.write_all(b"Q")?;
        self.send(&[sql.as_bytes(), b"\0"].concat())?;
        self.receive()
    }

    /// Reads messages until the server is ready.
    fn receive(&mut self) -> anyhow::Result<Received> {
        let (mut received, mut body) = (Received::default(), Vec::new());
        loop {
            let mut head = [0; 5];
            self.from.read_exact(&mut head)?;
            let [kind, len @ ..] = head;
            body.resize((u32::from_be_bytes(len) as usize).saturating_sub(4), 0);
            self.from.read_exact(&mut body)?;
            match kind {
                b'D' | b'd' => {
                    received.rows += 1;
                    received.sum += body.iter().map(|&byte| u64::from(byte)).sum::<u64>();
                }
                b'E' => bail!("the server said: {}", String::from_utf8_lossy(&body)),
                b'Z' => return Ok(received),
                _ => {}
            }
        }
    }
}

pub(super) fn measure(cluster: &Cluster, options: &Options) -> anyhow::Result<Vec<Figure>> {
    let mut wire = Wire::open(cluster)?;
    let steps = CASES.len() as u64 * u64::from(options.runs + 1);
    let mut progress = Progress::of("sending rows", steps, Counting::Things);
    let mut figures = Vec::new();
    for (title, sql, goal) in CASES {
        let mut figure = Figure::new(title, Unit::Milliseconds).with_goal(goal);
        for run in 0..=options.runs {
            let mut answers = [Received::default(), Received::default()];
            for (side, answer) in Side::BOTH.into_iter().zip(&mut answers) {
                let statement = queries::sql(sql, &table::name(side), options.rows);
                let started = Instant::now();
                *answer = wire.ask(&statement)?;
                // The first run warms up.
                if run > 0 {
                    let milliseconds = started.elapsed().as_secs_f64() * 1e3;
                    figure.side(side).add(Some(milliseconds));
                }
            }
            let [heap, howdah] = &answers;
            if heap != howdah {
                figure.difference = Some(format!("heap sends {heap:?}, howdah {howdah:?}"));
            }
            progress.advance(1, title);
        }
        figures.push(figure);
    }
    progress.finish(&format!("{} statements on both sides", CASES.len()));
    Ok(figures)
}
