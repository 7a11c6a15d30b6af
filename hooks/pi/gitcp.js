// gitcp: checkpoints of the files and the conversation, made by themselves. `gitcp disable pi` removes this file.
// Each event calls `gitcp hook pi EVENT` with what is known about it on stdin. Nothing here stops Pi: if gitcp is
// missing, slow or fails, the work goes on.
import { spawn } from "node:child_process"

const CHANGING = new Set(["bash", "edit", "write"])

// shared/call.js

const call = async (event, ctx, more) => {
  try {
    const session_id = ctx.sessionManager.getSessionId()
    const transcript_path = ctx.sessionManager.getSessionFile() ?? null
    const payload = JSON.stringify({ hook_event_name: event, session_id, transcript_path, cwd: ctx.cwd, ...more })
    return await callHook("pi", event, payload, ctx.cwd, event === "tool_call" ? LIMIT_BEFORE_TOOL : LIMIT)
  } catch {
    return ""
  }
}

const tool = (event) => ({ tool_name: event.toolName, tool_input: event.input, tool_use_id: event.toolCallId })

export default function (pi) {
  pi.on("session_start", async (event, ctx) => {
    await call("session_start", ctx, { source: event.reason })
  })
  pi.on("before_agent_start", async (event, ctx) => {
    const text = context(await call("before_agent_start", ctx, { prompt: event.prompt ?? "" }))
    if (text) return { message: { customType: "gitcp", content: text, display: true } }
  })
  pi.on("tool_call", async (event, ctx) => {
    if (CHANGING.has(event.toolName)) await call("tool_call", ctx, tool(event))
  })
  pi.on("tool_result", async (event, ctx) => {
    if (!CHANGING.has(event.toolName)) return
    await call("tool_result", ctx, { ...tool(event), tool_response: { content: event.content, is_error: event.isError } })
  })
  for (const name of ["agent_settled", "session_before_compact", "session_shutdown"])
    pi.on(name, async (event, ctx) => {
      await call(name, ctx, { trigger: event.reason ?? null })
    })
}
