//! A model over several GPUs: rank 0 here, the others in threads that make the same calls.

use std::path::Path;
use std::sync::mpsc::channel;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{bail, ensure, Context, Result};
use candle_core::{DType, Device, DeviceLocation};
use candle_rocm_backend::communication::{Id, Rank};
use candle_rocm_backend::{devices, DeviceExt as _};
use candle_rocm_transformers::{Checkpoint, Shares, Transformer};

use crate::checkpoint::weight_files;
use crate::follower::{first_error, Call, Follower};
use crate::model_code::{Pipeline, Ranks, SessionArgs, Sharing};
use crate::session::Sequence;

/// Reads a rank's part of a model, or its layers by the shares of a pipeline.
pub(crate) type LoadRank =
    Arc<dyn Fn(&Arc<Rank>, Option<&Shares>) -> Result<Transformer> + Send + Sync>;

/// How long processes wait for the first, and for how long they look again.
const PATIENCE: Duration = Duration::from_secs(600);
const GLANCE: Duration = Duration::from_millis(50);

/// A session of a model that GPUs share: of this process's rank, on `device` if it is the first.
///
/// # Errors
/// There are not so many GPUs, a rank's part cannot be read, the model cannot be divided so, or processes do not meet.
pub(crate) fn sequence(
    sharing: &Sharing,
    device: &Device,
    args: SessionArgs,
    load: &LoadRank,
) -> Result<Sequence> {
    match &sharing.ranks {
        Ranks::Threads(gpus) => threads(*gpus, device, args, load),
        Ranks::Processes {
            world,
            rank: number,
            meet_at,
        } => {
            ensure!(
                number < world,
                "--rank {number}: ranks of --world {world} count from 0"
            );
            let id = meet(*number, meet_at)?;
            let count = devices()?.len();
            // Processes that see one GPU each were given it by `HIP_VISIBLE_DEVICES`.
            let device = Device::new_rocm(number % count.max(1))?;
            rank(&device, (*number, *world, id), &args, load)
        }
    }
}

/// The identifier that the first process leaves in a file for the others.
fn meet(rank: usize, file: &Path) -> Result<Id> {
    let named = || file.display().to_string();
    if rank == 0 {
        ensure!(
            !file.exists(),
            "--meet-at {}: is there already, of an earlier run: remove it",
            file.display()
        );
        let id = Rank::new_id()?;
        let bytes: Vec<u8> = id.internal().iter().map(|byte| *byte as u8).collect();
        let whole = file.with_extension("part");
        std::fs::write(&whole, bytes).with_context(named)?;
        std::fs::rename(&whole, file).with_context(named)?;
        return Ok(id);
    }
    let begin = Instant::now();
    while !file.exists() {
        ensure!(
            begin.elapsed() < PATIENCE,
            "--meet-at {}: rank 0 did not come in {} s",
            file.display(),
            PATIENCE.as_secs()
        );
        std::thread::sleep(GLANCE);
    }
    let bytes = std::fs::read(file).with_context(named)?;
    let internal: Vec<_> = bytes.iter().map(|byte| *byte as _).collect();
    let Ok(internal) = internal.try_into() else {
        bail!("--meet-at {}: holds no identifier", file.display());
    };
    Ok(Id::uninit(internal))
}

/// A session of rank 0 on `device`, and the ranks that follow it.
fn threads(gpus: usize, device: &Device, args: SessionArgs, load: &LoadRank) -> Result<Sequence> {
    let DeviceLocation::Cuda { gpu_id: first } = device.location() else {
        bail!("--gpus {gpus}: --device cpu has none");
    };
    let count = devices()?.len();
    ensure!(
        (1..=count).contains(&gpus),
        "--gpus {gpus}: this machine has {count}"
    );
    let id = Rank::new_id()?;
    let others = (0..count).filter(|ordinal| *ordinal != first);
    let followers = others.take(gpus - 1).enumerate().map(|(n, ordinal)| {
        let (calls, received) = channel();
        let (load, args, number) = (load.clone(), args.clone(), n + 1);
        let follow = move || -> Result<()> {
            let device = Device::new_rocm(ordinal)?;
            let mut sequence = rank(&device, (number, gpus, id), &args, &load)?;
            for call in received {
                match call {
                    Call::Forward(tokens, position) => {
                        sequence.forward(&tokens, position)?;
                    }
                    Call::Reset => sequence.reset(),
                }
            }
            Ok(())
        };
        let thread = std::thread::Builder::new().name(format!("rank {number}"));
        Ok(Follower::new(number, calls, thread.spawn(follow)?))
    });
    let mut followers: Vec<Follower> = followers.collect::<Result<_>>()?;
    match rank(device, (0, gpus, id), &args, load) {
        Ok(first) => Ok(first.followed_by(followers)),
        Err(error) => Err(first_error(&mut followers, error)),
    }
}

fn rank(
    device: &Device,
    (number, ranks, id): (usize, usize, Id),
    args: &SessionArgs,
    load: &LoadRank,
) -> Result<Sequence> {
    let rank = Arc::new(Rank::join(device, number, ranks, id)?);
    let pipeline = args.sharing.as_ref().and_then(|it| it.pipeline.as_ref());
    let shares = pipeline.map(|pipeline| match pipeline {
        Pipeline::Layers(layers) => Shares::Layers(layers.clone()),
        Pipeline::ByMemory => Shares::ByMemory {
            tokens: args.capacity,
        },
    });
    let model = load(&rank, shares.as_ref())?;
    Sequence::of_rank(model, args, number == 0)
}

/// The weights in a Hugging Face folder, of which each rank reads its part.
///
/// # Errors
/// A file is missing or malformed.
pub(crate) fn checkpoint(folder: &Path, dtype: DType, device: &Device) -> Result<Checkpoint> {
    let files = weight_files(folder)?;
    // SAFETY: files of weights are written once, by whoever downloads them.
    let checkpoint = unsafe { Checkpoint::open(&files, dtype, device) };
    checkpoint.with_context(|| folder.display().to_string())
}
