const LIMIT = 8000 // milliseconds; gitcp ends by itself sooner
const LIMIT_BEFORE_TOOL = 13000

// Call `gitcp hook AGENT EVENT` and wait; what it printed, "" if anything went wrong. A process that cannot be killed is
// left behind.
const callHook = (agent, event, payload, cwd, milliseconds) =>
  new Promise((resolve) => {
    try {
      const child = spawn("gitcp", ["hook", agent, event], { cwd, stdio: ["pipe", "pipe", "ignore"] })
      const printed = []
      const limit = setTimeout(() => {
        child.kill("SIGKILL")
        child.unref()
        for (const stream of [child.stdin, child.stdout]) stream.destroy()
        resolve("")
      }, milliseconds)
      child.on("error", () => resolve(""))
      child.on("close", (code) => {
        clearTimeout(limit)
        resolve(code === 0 ? Buffer.concat(printed).toString("utf8") : "")
      })
      child.stdout.on("data", (data) => printed.push(data))
      child.stdin.on("error", () => {})
      child.stdin.end(payload)
    } catch {
      resolve("")
    }
  })

// What the hook wants the model to know: plain text, or JSON that says so.
const context = (printed) => {
  try {
    const said = JSON.parse(printed)
    return said?.hookSpecificOutput?.additionalContext ?? said?.additionalContext ?? ""
  } catch {
    return printed.trim()
  }
}
