//! Linux's permission for tiles (Documentation/arch/x86/xstate.rst of the kernel).

#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
use super::amx::TILE_DATA;

/// Why this process may not use tiles.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PermissionError {
    /// A system whose rules are not known here.
    #[error("how this system permits tiles is not known")]
    NotLinux,
    /// `EINVAL`, `ENOSYS`: the kernel does not know the question.
    #[error("Linux does not know ARCH_REQ_XCOMP_PERM, which 5.16 brought (errno {errno})")]
    OldKernel {
        /// The system's error number.
        errno: i32,
    },
    /// `EOPNOTSUPP`: the kernel does not keep tiles on this machine.
    #[error("Linux keeps no tiles on this machine: ARCH_REQ_XCOMP_PERM 18 answers EOPNOTSUPP")]
    Unsupported,
    /// `ENOSPC`: a thread's alternate signal stack would not hold the tiles.
    #[error("a thread's alternate signal stack is too small for the tiles (ENOSPC)")]
    SignalStack,
    /// Anything else.
    #[error("ARCH_REQ_XCOMP_PERM 18 failed (errno {errno})")]
    Refused {
        /// The system's error number.
        errno: i32,
    },
    /// The request succeeded, and the permission is not there.
    #[error("tiles were requested and are not among what is permitted ({permitted:#x})")]
    NotGranted {
        /// What `ARCH_GET_XCOMP_PERM` says: one bit for each part of a thread's state.
        permitted: u64,
    },
}

/// Asks Linux for tiles, for this process and what it starts, and sees whether they are permitted then.
/// To ask again changes nothing; the permission cannot be given back.
///
/// # Errors
/// If the system refuses; it does wherever the CPU has no tiles.
pub fn request_tiles() -> Result<(), PermissionError> {
    #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
    {
        linux::request().map_err(PermissionError::of_errno)?;
        let permitted = linux::permitted().map_err(PermissionError::of_errno)?;
        if permitted >> TILE_DATA & 1 == 1 {
            Ok(())
        } else {
            Err(PermissionError::NotGranted { permitted })
        }
    }
    #[cfg(not(all(target_arch = "x86_64", target_os = "linux")))]
    Err(PermissionError::NotLinux)
}

#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
impl PermissionError {
    fn of_errno(errno: i32) -> Self {
        match errno {
            libc::EINVAL | libc::ENOSYS => Self::OldKernel { errno },
            libc::EOPNOTSUPP => Self::Unsupported,
            libc::ENOSPC => Self::SignalStack,
            _ => Self::Refused { errno },
        }
    }
}

#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
mod linux {
    use super::TILE_DATA;
    use std::io;

    // asm/prctl.h of the kernel; libc has no names for them.
    const ARCH_GET_XCOMP_PERM: libc::c_int = 0x1022;
    const ARCH_REQ_XCOMP_PERM: libc::c_int = 0x1023;

    pub(super) fn request() -> Result<(), i32> {
        let feature = libc::c_ulong::from(TILE_DATA);
        // SAFETY: the request takes two numbers, and touches no memory of this process.
        let answer = unsafe { libc::syscall(libc::SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, feature) };
        success(answer)
    }

    /// One bit for each part of a thread's state.
    pub(super) fn permitted() -> Result<u64, i32> {
        let mut mask = 0u64;
        // SAFETY: the kernel writes one `u64` there, and `mask` is one.
        let answer =
            unsafe { libc::syscall(libc::SYS_arch_prctl, ARCH_GET_XCOMP_PERM, &raw mut mask) };
        success(answer).map(|()| mask)
    }

    fn success(answer: libc::c_long) -> Result<(), i32> {
        if answer == 0 {
            return Ok(());
        }
        Err(io::Error::last_os_error().raw_os_error().unwrap_or(0))
    }
}

#[cfg(test)]
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
mod tests {
    use super::*;
    use crate::simd_config::Amx;

    /// What is permitted from the start is what XCR0 has, without the tiles, and they are permitted
    /// where the CPU has them: two ways to the same facts.
    #[test]
    #[cfg_attr(miri, ignore = "neither CPUID nor this system call")]
    fn the_kernel_permits_what_the_cpu_has() {
        let amx = Amx::detect();
        let answer = request_tiles();
        let keeps = amx.xcr0.is_some_and(|xcr0| xcr0 >> TILE_DATA & 1 == 1);
        assert_eq!(answer.is_ok(), keeps, "{answer:?}");
        match linux::permitted() {
            Ok(permitted) => assert_eq!(Some(permitted & 0xe7), amx.xcr0.map(|x| x & 0xe7)),
            Err(errno) => assert_eq!(
                answer,
                Err(PermissionError::of_errno(errno)),
                "a kernel that knows one question knows both"
            ),
        }
    }

    #[test]
    fn every_answer_of_the_kernel_has_its_words() {
        let told = |errno| PermissionError::of_errno(errno).to_string();
        assert!(told(22).contains("5.16") && told(38).contains("5.16"));
        assert!(told(95).contains("keeps no tiles"));
        assert!(told(28).contains("signal stack"));
        assert_eq!(told(1), "ARCH_REQ_XCOMP_PERM 18 failed (errno 1)");
    }
}
