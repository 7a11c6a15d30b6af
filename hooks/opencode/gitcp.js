// gitcp: checkpoints of the files and the conversation, made by themselves. `gitcp disable opencode` (or kilo, which is
// made of it) removes this file. Each event calls `gitcp hook opencode EVENT` with what is known about it on stdin.
// Nothing here stops opencode: if gitcp is missing, slow or fails, the work goes on.
import { spawn, spawnSync } from "node:child_process"

const AGENT = /[/\\]\.?kilo[/\\]plugin/.test(import.meta.url) ? "kilo" : "opencode"
const CHANGING = new Set(["bash", "edit", "multiedit", "patch", "apply_patch", "write"])

// shared/call.js

export const GitcpPlugin = async ({ directory }) => {
  const parents = new Map() // a sub-agent's session: the session that started it
  let last // the session that was worked in last

  const payload = (event, session, more) => {
    if (session && !parents.has(session)) last = session
    const parent_id = parents.get(session) ?? null
    return JSON.stringify({ hook_event_name: event, session_id: session ?? last ?? null, parent_id, cwd: directory, ...more })
  }

  const call = (event, session, more) => {
    const limit = event === "tool.execute.before" ? LIMIT_BEFORE_TOOL : LIMIT
    return callHook(AGENT, event, payload(event, session, more), directory, limit)
  }

  // The same where opencode does not wait: it may be gone a moment later.
  const callAtOnce = (event, session, more) => {
    try {
      const stdio = ["pipe", "ignore", "ignore"]
      const input = payload(event, session, more)
      spawnSync("gitcp", ["hook", AGENT, event], { cwd: directory, input, stdio, timeout: LIMIT, killSignal: "SIGKILL" })
    } catch {}
  }

  return {
    event: async ({ event }) => {
      const info = event.properties?.info
      if (event.type === "session.created" && info?.id) {
        if (info.parentID) parents.set(info.id, info.parentID)
        else callAtOnce("session.created", info.id)
      }
      const session = event.properties?.sessionID
      if (!session || parents.has(session)) return
      if (event.type === "session.idle") callAtOnce("session.idle", session)
      if (event.type === "session.error") callAtOnce("session.error", session)
    },
    "chat.message": async (input, output) => {
      const prompt = (output.parts ?? []).filter((part) => part.type === "text").map((part) => part.text).join("\n")
      const text = context(await call("chat.message", input.sessionID, { prompt }))
      const first = output.parts?.[0]
      if (text && first) output.parts.push({ ...first, id: `${first.id}g`, type: "text", text, synthetic: true })
    },
    "tool.execute.before": async (input, output) => {
      if (!CHANGING.has(input.tool)) return
      const more = { tool_name: input.tool, tool_input: output.args, tool_use_id: input.callID }
      await call("tool.execute.before", input.sessionID, more)
    },
    "tool.execute.after": async (input, output) => {
      if (!CHANGING.has(input.tool)) return
      const tool_response = { output: output.output, metadata: output.metadata }
      const more = { tool_name: input.tool, tool_input: input.args, tool_use_id: input.callID, tool_response }
      await call("tool.execute.after", input.sessionID, more)
    },
    "experimental.session.compacting": async (input) => {
      await call("experimental.session.compacting", input.sessionID)
    },
    dispose: async () => {
      if (last) await call("dispose", last)
    },
  }
}
